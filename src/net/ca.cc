#include "net/ca.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "experiment/files.h"
#include "experiment/job.h"
#include "net/pem.h"
#include "privacy/mask_keys.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

using pem::Certificate509;
using pem::CommonName;
using pem::Key;
using pem::Memory;
using pem::NoPassphrase;
using pem::Over;
using pem::ParseCertificate;
using pem::ParseKey;
using Request509 = Handle<X509_REQ, &X509_REQ_free>;
using Crl = Handle<X509_CRL, &X509_CRL_free>;
using Number = Handle<BIGNUM, &BN_free>;
using Serial = Handle<ASN1_INTEGER, &ASN1_INTEGER_free>;
using Time = Handle<ASN1_TIME, &ASN1_TIME_free>;

Error Trouble(const char* what) {
  char text[256] = "no reason given";
  if (const unsigned long code = ERR_get_error()) ERR_error_string_n(code, text, sizeof text);
  return Fail(Code::kInternal, "{} failed in OpenSSL ({})", what, text);
}

std::string TextOf(const Memory& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}
template <class Write>
std::string Pem(Write write) {
  const Memory out(BIO_new(BIO_s_mem()));
  return write(out.get()) == 1 ? TextOf(out) : "";
}
std::string PemOf(X509* x) {
  return Pem([&](BIO* out) { return PEM_write_bio_X509(out, x); });
}
std::string PemOf(X509_REQ* r) {
  return Pem([&](BIO* out) { return PEM_write_bio_X509_REQ(out, r); });
}
std::string PemOf(X509_CRL* c) {
  return Pem([&](BIO* out) { return PEM_write_bio_X509_CRL(out, c); });
}
Crl ParseCrl(const std::string& pem) {
  return Crl(PEM_read_bio_X509_CRL(Over(pem).get(), nullptr, &NoPassphrase, nullptr));
}

Status CheckName(const std::string& name) {
  if (IsPartyName(name)) return Ok{};
  return Fail(Code::kInvalidArgument,
              "\"{}\": a name has up to 64 letters, digits, -, _ and dots, and begins with a letter or digit",
              name);
}

// Never over a file that is there; `secret`: its owner's alone.
Status WriteNew(const fs::path& file, const std::string& text, bool secret) {
  std::error_code ec;
  if (fs::exists(file, ec))
    return Fail(Code::kInvalidArgument, "{}: is there already; nothing was written, name another place",
                file.string());
  TACIT_TRY(AtomicFile out,
            AtomicFile::Create(file, secret ? AtomicFile::Access::kOwnerOnly : AtomicFile::Access::kUsual));
  TACIT_OK(out.Write(text));
  return out.Commit();
}

// A private key, as WriteNew; nothing of it stays in memory.
Status WriteKey(const fs::path& file, EVP_PKEY* key,
                const std::optional<std::string>& passphrase = std::nullopt) {
  const Memory out(BIO_new(BIO_s_secmem()));
  if (!out || PEM_write_bio_PKCS8PrivateKey(out.get(), key, passphrase ? EVP_aes_256_cbc() : nullptr,
                                            passphrase ? passphrase->data() : nullptr,
                                            passphrase ? static_cast<int>(passphrase->size()) : 0, nullptr,
                                            nullptr) != 1)
    return Trouble("writing a key");
  std::string pem = TextOf(out);
  Status written = WriteNew(file, pem, true);
  Wipe(std::as_writable_bytes(std::span(pem)));
  return written;
}

bool Extend(X509* x, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, x, nullptr, nullptr, 0);
  const Handle<X509_EXTENSION, &X509_EXTENSION_free> made(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return made && X509_add_ext(x, made.get(), -1) == 1;
}

// A certificate for this key, without extensions and signature.
Certificate509 Draft(const std::string& name, EVP_PKEY* key, X509* issuer, int days) {
  Certificate509 x(X509_new());
  const Number serial(BN_new());
  if (!x || !serial || BN_rand(serial.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) != 1) return nullptr;
  BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(x.get()));
  X509_set_version(x.get(), 2);
  // An hour back: clocks differ.
  const long begin = days < 0 ? 86400L * (days - 1) : -3600L;
  X509_gmtime_adj(X509_getm_notBefore(x.get()), begin);
  X509_gmtime_adj(X509_getm_notAfter(x.get()), 86400L * days);
  X509_set_pubkey(x.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(x.get(), X509_get_subject_name(issuer != nullptr ? issuer : x.get()));
  return x;
}

std::string SerialText(const ASN1_INTEGER* serial) {
  const Number n(ASN1_INTEGER_to_BN(serial, nullptr));
  char* text = BN_bn2hex(n.get());
  std::string out = text != nullptr ? text : "";
  OPENSSL_free(text);
  return out;
}

// Whose key a certificate is for. Its owner has signed the request with the key.
struct Wanted {
  std::string name;
  Key key;
};
Result<Wanted> ParseRequest(const std::string& pem, const std::string& file) {
  const Request509 r(PEM_read_bio_X509_REQ(Over(pem).get(), nullptr, &NoPassphrase, nullptr));
  if (!r)
    return Fail(Code::kMalformed, "{}: is no request for a certificate; `tacit keys request NAME` makes one",
                file);
  Wanted w{CommonName(X509_REQ_get_subject_name(r.get())), Key(X509_REQ_get_pubkey(r.get()))};
  if (!w.key || X509_REQ_verify(r.get(), w.key.get()) != 1)
    return Fail(Code::kMalformed, "{}: is not signed by the key it is about; ask for it again", file);
  // 112 bits of security or more: EC keys of 224 bits, RSA keys of 2048.
  if (EVP_PKEY_get_security_bits(w.key.get()) < 112)
    return Fail(Code::kInvalidArgument,
                "{}: its key is too short to be vouched for; make one with `tacit "
                "keys request`",
                file);
  return w;
}
Result<Wanted> ReadRequest(const fs::path& file) {
  TACIT_TRY(const std::string pem, ReadWhole(file, 1 << 20));
  return ParseRequest(pem, file.string());
}

struct Authority {
  Certificate509 certificate;
  Key key;
};
// Of the authority; `ask` if it is encrypted. Null: it is none.
Result<Key> OpenKey(std::string_view pem, const fs::path& file, const AskPassphrase& ask) {
  if (pem.find("ENCRYPTED") == pem.npos) return ParseKey(pem);
  if (!ask)
    return Fail(Code::kInvalidArgument, "{}: is encrypted, and nobody is there to ask for its passphrase",
                file.string());
  TACIT_TRY(std::string passphrase, ask(file.string()));
  const auto answer = [](char* buffer, int size, int, void* context) {
    const auto& text = *static_cast<const std::string*>(context);
    if (text.size() > static_cast<std::size_t>(size)) return -1;
    std::copy(text.begin(), text.end(), buffer);
    return static_cast<int>(text.size());
  };
  Key key(PEM_read_bio_PrivateKey(Over(pem).get(), nullptr, answer, &passphrase));
  Wipe(std::as_writable_bytes(std::span(passphrase)));
  if (key) return key;
  return Fail(Code::kInvalidArgument, "{}: the passphrase does not open it; give the one it was made with",
              file.string());
}
Result<Authority> Open(const fs::path& folder, const AskPassphrase& ask) {
  std::error_code ec;
  if (!fs::exists(folder / "ca.key", ec))
    return Fail(Code::kNotFound, "{}: holds no authority; `tacit keys ca {}` makes one", folder.string(),
                folder.string());
  TACIT_TRY(const std::string certificate, ReadWhole(folder / "ca.pem", 1 << 20));
  TACIT_TRY(std::string key, ReadWhole(folder / "ca.key", 1 << 20));
  Result<Key> opened = OpenKey(key, folder / "ca.key", ask);
  Wipe(std::as_writable_bytes(std::span(key)));
  TACIT_TRY(Key own, std::move(opened));
  Authority a{ParseCertificate(certificate), std::move(own)};
  if (!a.certificate || !a.key || X509_check_private_key(a.certificate.get(), a.key.get()) != 1)
    return Fail(Code::kMalformed, "{}: ca.pem and ca.key are not a certificate with its key",
                folder.string());
  return a;
}

// The authority's files are one process's at a time: what is read, changed and written back by two at once
// loses a line of the book, and what is not there cannot be revoked. Waits for others; they are soon done.
Status TakeTurn(const fs::path& folder, std::optional<FolderLock>& lock) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (;;) {
    Status taken = lock.emplace().Take(folder);
    if (taken.ok() || !lock->busy()) return taken;
    if (std::chrono::steady_clock::now() >= until)
      return Fail(Code::kIo,
                  "{}: another process has been at work in it for 30 seconds; let it end, and try again",
                  folder.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// A new list with these serials, signed.
Result<std::string> SignCrl(const Authority& a, const std::vector<std::string>& serials) {
  const Crl crl(X509_CRL_new());
  const Time now(X509_gmtime_adj(nullptr, -3600)), next(X509_gmtime_adj(nullptr, 86400L * 3650));
  X509_CRL_set_version(crl.get(), 1);
  X509_CRL_set_issuer_name(crl.get(), X509_get_subject_name(a.certificate.get()));
  X509_CRL_set1_lastUpdate(crl.get(), now.get());
  X509_CRL_set1_nextUpdate(crl.get(), next.get());
  for (const std::string& text : serials) {
    BIGNUM* raw = nullptr;
    BN_hex2bn(&raw, text.c_str());
    const Number n(raw);
    const Serial serial(BN_to_ASN1_INTEGER(n.get(), nullptr));
    X509_REVOKED* one = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(one, serial.get());
    X509_REVOKED_set_revocationDate(one, now.get());
    X509_CRL_add0_revoked(crl.get(), one);
  }
  X509_CRL_sort(crl.get());
  if (X509_CRL_sign(crl.get(), a.key.get(), EVP_sha256()) <= 0) return Trouble("signing a list");
  return PemOf(crl.get());
}

bool IsAddress(const std::string& host) {
  return host.find(':') != std::string::npos || host.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

Status MakeAuthority(const NewAuthority& a) {
  TACIT_OK(CheckName(a.name));
  std::error_code ec;
  fs::create_directories(a.folder, ec);
  if (ec) return Fail(Code::kIo, "{}: cannot be made ({})", a.folder.string(), ec.message());
  std::optional<FolderLock> turn;
  TACIT_OK(TakeTurn(a.folder, turn));
  Key key(EVP_EC_gen("P-256"));
  if (!key) return Trouble("making a key");
  Certificate509 x = Draft(a.name, key.get(), nullptr, a.days);
  if (!x || !Extend(x.get(), x.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !Extend(x.get(), x.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !Extend(x.get(), x.get(), NID_subject_key_identifier, "hash") ||
      X509_sign(x.get(), key.get(), EVP_sha256()) <= 0)
    return Trouble("making a certificate");
  TACIT_OK(WriteKey(a.folder / "ca.key", key.get(), a.passphrase));
  TACIT_OK(WriteNew(a.folder / "ca.pem", PemOf(x.get()), false));
  const Authority made{std::move(x), std::move(key)};
  TACIT_TRY(const std::string crl, SignCrl(made, {}));
  TACIT_OK(WriteWhole(a.folder / "issued.txt", ""));
  return WriteWhole(a.folder / "crl.pem", crl);
}

Result<std::string> NameInRequest(const std::string& pem, const std::string& file) {
  TACIT_TRY(const Wanted asked, ParseRequest(pem, file));
  return asked.name;
}

Result<RequestFiles> MakeRequest(const NewRequest& n) {
  TACIT_OK(CheckName(n.name));
  const RequestFiles files{n.folder / (n.name + ".csr"), n.folder / (n.name + ".key")};
  std::error_code ec;
  fs::create_directories(n.folder, ec);
  if (fs::exists(files.request, ec))
    return Fail(Code::kInvalidArgument, "{}: is there already; nothing was written, name another --out",
                files.request.string());
  const Key key(EVP_EC_gen("P-256"));
  if (!key) return Trouble("making a key");
  const Request509 r(X509_REQ_new());
  if (!r || X509_REQ_set_version(r.get(), 0) != 1 || X509_REQ_set_pubkey(r.get(), key.get()) != 1 ||
      X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(r.get()), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(n.name.c_str()), -1, -1, 0) != 1 ||
      X509_REQ_sign(r.get(), key.get(), EVP_sha256()) <= 0)
    return Trouble("making a request");
  TACIT_OK(WriteKey(files.key, key.get()));
  TACIT_OK(WriteNew(files.request, PemOf(r.get()), false));
  return files;
}

std::string PeerHost(const std::string& name) { return name + ".peer.tacit.invalid"; }

std::string ServerHost(const std::string& name) { return name + ".server.tacit.invalid"; }

const char* Name(Party party) {
  return party == Party::kServer ? "server" : party == Party::kPeer ? "peer" : "client";
}

namespace {
// TLS compares names without their case, so that no two parties may differ in it alone.
Status CheckCase(const std::string& issued, const std::string& name) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  std::istringstream lines(issued);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string serial, other;
    words >> serial >> other;
    if (other != name && std::equal(other.begin(), other.end(), name.begin(), name.end(), same))
      return Fail(Code::kInvalidArgument,
                  "{}: the authority has issued a certificate for {}, and names are compared without their "
                  "case; choose another name",
                  name, other);
  }
  return Ok{};
}
}  // namespace

Result<IssuedFiles> Issue(const NewCertificate& n, const AskPassphrase& ask) {
  TACIT_TRY(const Authority a, Open(n.authority, ask));
  Wanted wanted{n.name, nullptr};
  if (!n.request.empty()) {
    TACIT_TRY(wanted, ReadRequest(n.request));
    if (!n.name.empty() && n.name != wanted.name)
      return Fail(Code::kInvalidArgument,
                  "{}: asks for another name than {}; leave the name out, or ask its "
                  "owner for a new request",
                  n.request.string(), n.name);
  }
  const std::string& name = wanted.name;
  TACIT_OK(CheckName(name));
  std::string hosts;
  for (const std::string& host : n.hosts) {
    if (host.empty() || host.find_first_of(", \t\n") != std::string::npos)
      return Fail(Code::kInvalidArgument, "--host {}: is no host name and no address", host);
    // As TLS compares names: without their case, and without a dot at the end.
    std::string plain = host.substr(0, host.find_last_not_of('.') + 1);
    std::transform(plain.begin(), plain.end(), plain.begin(),
                   [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    if (plain.ends_with("tacit.invalid"))
      return Fail(Code::kInvalidArgument,
                  "--host {}: names under tacit.invalid say who a party is, not where", host);
    hosts += fmt::format("{}{}:{}", hosts.empty() ? "" : ",", IsAddress(host) ? "IP" : "DNS", host);
  }
  if (n.party == Party::kServer && hosts.empty())
    return Fail(Code::kInvalidArgument,
                "{}: a server's certificate names the hosts it is for; give --host, e.g. --host "
                "train.example.org --host 192.0.2.1",
                name);
  // Clients who trust it with more than others check who it is, and not only where.
  if (n.party == Party::kServer) hosts += ",DNS:" + ServerHost(name);
  if (n.party == Party::kPeer) hosts = "DNS:" + PeerHost(name);  // neighbours check who it is, not where
  if (!wanted.key) wanted.key.reset(EVP_EC_gen("P-256"));
  if (!wanted.key) return Trouble("making a key");
  const Certificate509 x = Draft(name, wanted.key.get(), a.certificate.get(), n.days);
  X509* issuer = a.certificate.get();
  if (!x || !Extend(x.get(), issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !Extend(x.get(), issuer, NID_key_usage, "critical,digitalSignature") ||
      !Extend(x.get(), issuer, NID_ext_key_usage,
              n.party == Party::kServer ? "serverAuth"
              : n.party == Party::kPeer ? "serverAuth,clientAuth"
                                        : "clientAuth") ||
      !Extend(x.get(), issuer, NID_subject_key_identifier, "hash") ||
      !Extend(x.get(), issuer, NID_authority_key_identifier, "keyid:always"))
    return Trouble("making a certificate");
  if (!hosts.empty() && !Extend(x.get(), issuer, NID_subject_alt_name, hosts))
    return Fail(Code::kInvalidArgument, "--host: {} are no host names and addresses", hosts);
  if (X509_sign(x.get(), a.key.get(), EVP_sha256()) <= 0) return Trouble("signing a certificate");
  IssuedFiles files{n.folder / (name + ".pem"), n.request.empty() ? n.folder / (name + ".key") : fs::path(),
                    name, SerialText(X509_get0_serialNumber(x.get()))};
  std::error_code ec;
  fs::create_directories(n.folder, ec);
  std::optional<FolderLock> turn;
  TACIT_OK(TakeTurn(n.authority, turn));
  if (fs::exists(files.certificate, ec))
    return Fail(Code::kInvalidArgument, "{}: is there already; nothing was written, name another --out",
                files.certificate.string());
  // In the book before it exists: what is not there cannot be revoked.
  TACIT_TRY(std::string issued, ReadWhole(n.authority / "issued.txt"));
  TACIT_OK(CheckCase(issued, name));
  issued += fmt::format("{} {} {} {}\n", files.serial, name, Name(n.party), n.days);
  TACIT_OK(WriteWhole(n.authority / "issued.txt", issued));
  if (n.request.empty()) TACIT_OK(WriteKey(files.key, wanted.key.get()));
  TACIT_OK(WriteNew(files.certificate, PemOf(x.get()), false));
  return files;
}

Result<std::size_t> Revoke(const fs::path& authority, const std::string& name, const AskPassphrase& ask) {
  TACIT_TRY(const Authority a, Open(authority, ask));
  std::optional<FolderLock> turn;
  TACIT_OK(TakeTurn(authority, turn));
  TACIT_TRY(const std::string issued, ReadWhole(authority / "issued.txt"));
  TACIT_TRY(const std::string before, ReadWhole(authority / "crl.pem"));
  const Crl crl = ParseCrl(before);
  if (!crl)
    return Fail(Code::kMalformed, "{}: is no list of revoked certificates", (authority / "crl.pem").string());
  std::vector<std::string> serials;
  const auto* known = X509_CRL_get_REVOKED(crl.get());
  for (int i = 0; i < sk_X509_REVOKED_num(known); ++i)
    serials.push_back(SerialText(X509_REVOKED_get0_serialNumber(sk_X509_REVOKED_value(known, i))));
  std::size_t count = 0;
  std::istringstream lines(issued);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string serial, who;
    if (!(words >> serial >> who) || who != name) continue;
    if (std::find(serials.begin(), serials.end(), serial) != serials.end()) continue;
    serials.push_back(serial);
    ++count;
  }
  if (count == 0)
    return Fail(Code::kNotFound, "{}: {} has issued no certificate of this name that is not revoked already",
                name, authority.string());
  TACIT_TRY(const std::string after, SignCrl(a, serials));
  TACIT_OK(WriteWhole(authority / "crl.pem", after));
  return count;
}

Result<Identity> ReadIdentity(const fs::path& authority, const fs::path& certificate, const fs::path& key) {
  struct stat info{};
  if (::stat(key.c_str(), &info) == 0 && (info.st_mode & 077) != 0)
    return Fail(Code::kInvalidArgument, "{}: others may read this private key; chmod 600 {}", key.string(),
                key.string());
  Identity id;
  TACIT_TRY(id.authority, ReadWhole(authority, 1 << 20));
  TACIT_TRY(id.certificate, ReadWhole(certificate, 1 << 20));
  TACIT_TRY(id.key, ReadWhole(key, 1 << 20));
  const Certificate509 x = ParseCertificate(id.certificate), ca = ParseCertificate(id.authority);
  const Key k = ParseKey(id.key);
  if (!ca) return Fail(Code::kMalformed, "{}: is no certificate in PEM", authority.string());
  // TLS would believe all of them, and lists of revoked certificates are of one.
  if (id.authority.find("-----BEGIN", id.authority.find("-----BEGIN") + 1) != id.authority.npos)
    return Fail(Code::kInvalidArgument,
                "{}: holds more than one block; give the certificate of one authority alone",
                authority.string());
  if (!x) return Fail(Code::kMalformed, "{}: is no certificate in PEM", certificate.string());
  if (!k || X509_check_private_key(x.get(), k.get()) != 1)
    return Fail(Code::kMalformed, "{}: is not the private key of {}", key.string(), certificate.string());
  id.certificate = PemOf(x.get());  // the certificate alone: it is shown to others, and a file may hold more
  id.name = CommonName(X509_get_subject_name(x.get()));
  TACIT_OK(CheckName(id.name));
  return id;
}

namespace {
// A certificate that is shown in a call, the same in all calls of a connection: read once, for reading takes
// long beside the rest of a call. Not many are kept, for under masks a server shows others' to a client.
Certificate509 Shown(const std::string& certificate) {
  static std::mutex mutex;
  static std::map<std::string, Certificate509> read;
  const std::lock_guard lock(mutex);
  auto at = read.find(certificate);
  if (at == read.end()) {
    if (read.size() >= 4096) read.clear();
    Certificate509 x = ParseCertificate(certificate);
    if (!x) return x;  // what is none is not kept
    at = read.emplace(certificate, std::move(x)).first;
  }
  X509_up_ref(at->second.get());
  return Certificate509(at->second.get());
}
}  // namespace

std::string NameIn(const std::string& certificate) {
  const Certificate509 x = Shown(certificate);
  return x ? CommonName(X509_get_subject_name(x.get())) : "";
}

struct Revocations::Known {
  std::mutex mutex;
  std::string text;
  Crl list;  // none: nothing was read yet, or it is no list of this authority
  Certificate509 authority;  // read when there is a list to be judged
};

Revocations::Revocations(fs::path file, std::string authority_pem)
    : file_(std::move(file)), authority_(std::move(authority_pem)), known_(std::make_shared<Known>()) {}

Status Revocations::Readable() const {
  if (file_.empty()) return Ok{};
  const std::lock_guard lock(known_->mutex);
  return Read();
}

bool Revocations::Outdated() const {
  const std::lock_guard lock(known_->mutex);
  const ASN1_TIME* next = known_->list ? X509_CRL_get0_nextUpdate(known_->list.get()) : nullptr;
  return next != nullptr && X509_cmp_current_time(next) <= 0;
}

Status Revocations::Read() const {
  const Result<std::string> held = ReadWhole(file_, 1 << 26);
  if (!held.ok())
    return Fail(Code::kIo, "{}; nobody is let in without a list of revoked certificates",
                held.error().message);
  return Hold(*held);
}

Status Revocations::Hold(const std::string& text) const {
  Crl& crl = known_->list;
  if (!crl || known_->text != text) {
    crl = ParseCrl(text);
    Certificate509& ca = known_->authority;
    if (crl && !ca) ca = ParseCertificate(authority_);
    EVP_PKEY* key = ca ? X509_get0_pubkey(ca.get()) : nullptr;
    if (crl && (key == nullptr || X509_CRL_verify(crl.get(), key) != 1)) crl.reset();
    known_->text = text;
  }
  if (!crl)
    return Fail(Code::kIo, "{}: is no list of this authority; nobody is let in without one", file_.string());
  return Ok{};
}

Status Revocations::Check(const std::string& pem) const {
  const Certificate509 x = Shown(pem);
  if (!x) return Fail(Code::kMalformed, "the certificate cannot be read");
  if (X509_cmp_current_time(X509_get0_notBefore(x.get())) >= 0 ||
      X509_cmp_current_time(X509_get0_notAfter(x.get())) <= 0)
    return Fail(Code::kInvalidArgument, "the certificate is not valid now; ask its authority for a new one");
  if (file_.empty()) return Ok{};
  const std::lock_guard lock(known_->mutex);
  TACIT_OK(Read());
  return Listed(pem);
}

Status Revocations::CheckBy(const std::string& list, const std::string& pem) const {
  const std::lock_guard lock(known_->mutex);
  TACIT_OK(Hold(list));
  return Listed(pem);
}

Status Revocations::Listed(const std::string& pem) const {
  const Certificate509 x = Shown(pem);
  if (!x) return Fail(Code::kMalformed, "the certificate cannot be read");
  X509_REVOKED* found = nullptr;
  if (X509_CRL_get0_by_cert(known_->list.get(), &found, x.get()) != 0)
    return Fail(Code::kInvalidArgument, "the certificate is revoked; ask its authority for a new one");
  return Ok{};
}

}  // namespace tacit

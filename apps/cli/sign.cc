// tacit sign: a signature beside a certificate that holds.
#include <memory>

#include "cli.h"
#include "experiment/signature.h"
#include "experiment/verify.h"
#include "experiment/verify_session.h"

namespace tacit::cli {
namespace {

struct Arguments {
  std::string where, key;
  PassphraseOptions passphrase;
};

Result<int> Run(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("sign"));
  TACIT_TRY(const std::filesystem::path file, FindCertificate(a.where));
  TACIT_TRY(const std::string bytes, ReadWhole(file, "a certificate.json that `tacit train` wrote"));
  TACIT_TRY(const nlohmann::json certificate, ParseCertificate(bytes, file.string()));
  // Nobody should put a name under figures that do not hold.
  TACIT_TRY(const Verification v, Verify(certificate, file.string()));
  if (!v.holds())
    return Fail(Code::kMismatch, "{}: is not signed, because it does not hold: {}; see `tacit verify`",
                file.string(), v.findings.front().sentence);
  TACIT_TRY(const PrivateKey key,
            PrivateKey::Read(a.key, [&](const std::string& name) { return a.passphrase.Ask(name); }));
  TACIT_OK(SignFile(file, key));
  const std::string signature = SignatureBeside(file).string(), fingerprint = key.public_key().fingerprint();
  if (common.json)
    return PrintJson({{"certificate", file.string()}, {"signature", signature}, {"key", fingerprint}});
  fmt::print("{}\n  signed by {}\n", signature, fingerprint);
  return 0;
}

}  // namespace

Result<std::filesystem::path> FindCertificate(const std::string& where) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(where, ignored)) return std::filesystem::path(where);
  TACIT_TRY(const std::filesystem::path folder, FindRun(where));
  const bool session =
      !std::filesystem::exists(folder / "certificate.json", ignored) && IsSessionFolder(folder);
  return folder / (session ? "releases.json" : "certificate.json");
}

void AddSign(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "sign", "sign a certificate with your key",
              "  tacit sign runs/demo-20260101T120000 --key me.pem\n"
              "  tacit verify runs/demo-20260101T120000 --key me.pub.pem\n"
              "\nWrites certificate.json.sig beside the certificate: an Ed25519 signature of the file's\n"
              "bytes. A certificate whose figures do not hold is not signed.\n");
  auto a = std::make_shared<Arguments>();
  verb->add_option("certificate", a->where, "certificate.json, or a run folder")
      ->required()
      ->type_name("FILE|RUN");
  verb->add_option("--key", a->key, "private key, as `tacit keys new` writes it")
      ->required()
      ->type_name("KEY.pem");
  a->passphrase.Add(verb);
  verb->callback([a, &run] { run.action = [a, &run] { return Run(run.common, *a); }; });
}

}  // namespace tacit::cli

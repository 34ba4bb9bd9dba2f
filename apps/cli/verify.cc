// tacit verify: a certificate, recomputed.
#include "experiment/verify.h"

#include <cmath>
#include <memory>

#include "cli.h"
#include "experiment/signature.h"

namespace tacit::cli {
namespace {

nlohmann::json ToJson(const Verification& v) {
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& f : v.findings)
    findings.push_back(
        {{"figure", f.figure}, {"stated", f.stated}, {"recomputed", f.recomputed}, {"message", f.sentence}});
  return {{"run", v.run},
          {"holds", v.holds()},
          {"mode", v.mode},
          {"unit", v.unit},
          {"adjacency", v.adjacency},
          {"mechanism", v.mechanism},
          {"rounds", v.rounds},
          {"mu", Number(v.mu)},
          {"epsilon", Number(v.epsilon)},
          {"delta", v.delta},
          {"compared", v.compared},
          {"findings", findings},
          {"session", v.session.empty() ? nlohmann::json(nullptr) : nlohmann::json(v.session)}};
}

Result<int> Run(const Common& common, const std::string& where, const std::string& key_file) {
  TACIT_OK(common.ExpectNoSets("verify"));
  TACIT_TRY(const std::filesystem::path file, FindCertificate(where));
  std::error_code ignored;
  const bool alone = std::filesystem::is_regular_file(where, ignored);
  if (!alone && !std::filesystem::exists(file, ignored))
    TACIT_OK(VerifyFolder(file.parent_path()));      // says what is missing
  TACIT_TRY(const std::string bytes, ReadWhole(file, "a certificate.json that `tacit train` wrote"));
  TACIT_TRY(const nlohmann::json certificate, ParseCertificate(bytes, file.string()));
  auto verified = alone ? Verify(certificate, file.string()) : VerifyFolder(file.parent_path());
  if (!verified.ok()) return verified.error();
  Verification& v = *verified;
  std::string signature = "not checked: give --key";
  if (!std::filesystem::exists(SignatureBeside(file), ignored)) signature = "none";
  if (!key_file.empty()) {
    TACIT_TRY(const std::string pem, ReadWhole(key_file, "the public key of who signed"));
    TACIT_TRY(const PublicKey key, PublicKey::Parse(pem, key_file));
    const auto fault = SignatureFault(file, bytes, key, key_file);
    signature = fault ? "does not hold" : fmt::format("by {} ({})", key_file, key.fingerprint());
    if (fault)
      v.findings.insert(v.findings.begin(), {"signature", "signed", "not signed by this key", *fault});
  }
  const int code = v.holds() ? 0 : static_cast<int>(Code::kMismatch);
  if (common.json) {
    nlohmann::json document = ToJson(v);
    document["signature"] = signature;
    if (!v.holds()) document["error"] = {{"code", code}, {"message", v.findings.front().sentence}};
    PrintJson(document);
    return code;
  }
  for (const Finding& f : v.findings)
    fmt::print(stderr, "{} {}\n", Styled(stderr, Style::kRed, "does not hold:"), f.sentence);
  if (common.quiet) return code;
  Table table({fmt::format("The certificate of {} {}", v.run, v.holds() ? "holds" : "does not hold"), ""});
  table.Left(0);
  table.Left(1);
  table.Add({"ε recomputed", fmt::format("{} at δ = {}", EpsilonText(v.epsilon), DigitsUp(v.delta))});
  if (!v.claimed.empty()) table.Add({"ε claimed", v.claimed + " by the paper"});
  table.Add({"μ recomputed", std::isinf(v.mu) && !std::isinf(v.epsilon) ? "none: the plan as a whole"
                             : std::isinf(v.mu)                         ? "∞"
                                                                        : DigitsUp(v.mu)});
  table.Add({"from", v.session.empty()
                         ? fmt::format("{} rounds of {} noise, {} unit, {} adjacency", Grouped(v.rounds),
                                       v.mechanism, v.unit, v.adjacency)
                         : fmt::format("a budget that held for all releases: {} noise, {} unit, {} adjacency",
                                       v.mechanism, v.unit, v.adjacency)});
  if (!v.session.empty()) table.Add({"released", v.session});
  std::string compared;
  for (const std::string& c : v.compared) compared += (compared.empty() ? "" : ", ") + c;
  table.Add({"compared", compared});
  table.Add({"signature", signature});
  table.Print(stdout, 0);
  return code;
}

}  // namespace

void AddVerify(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "verify", "recompute a certificate and compare every figure",
      "  tacit verify runs/demo-20260101T120000\n"
      "  tacit verify certificate.json --json\n"
      "  tacit verify certificate.json --key me.pub.pem      and check who signed it\n"
      "\nOf a run folder, the certificate is also compared with the config, the model, the ledger\n"
      "and the trace. Every figure that does not hold is named with the value stated and the value\n"
      "recomputed, and the exit code is 8; so it is if the signature is not that of the key.\n"
      "\nThe releases.json that a session of a Python program leaves is read as well, or its folder.\n");
  struct Arguments {
    std::string where, key;
  };
  auto a = std::make_shared<Arguments>();
  verb->add_option("certificate", a->where, "certificate.json, releases.json, or the folder of either")
      ->required()
      ->type_name("FILE|RUN");
  verb->add_option("--key", a->key, "public key that must have signed it")->type_name("PUBLIC.pem");
  verb->callback([a, &run] { run.action = [a, &run] { return Run(run.common, a->where, a->key); }; });
}

}  // namespace tacit::cli

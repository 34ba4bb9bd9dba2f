// tacit verify: a certificate, recomputed.
#include "experiment/verify.h"

#include <cmath>
#include <memory>

#include "cli.h"

namespace tacit::cli {
namespace {

nlohmann::json ToJson(const Verification& v) {
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& f : v.findings)
    findings.push_back(
        {{"figure", f.figure}, {"stated", f.stated}, {"recomputed", f.recomputed}, {"message", f.sentence}});
  return {{"run", v.run},       {"holds", v.holds()},       {"mode", v.mode},
          {"unit", v.unit},     {"adjacency", v.adjacency}, {"mechanism", v.mechanism},
          {"rounds", v.rounds}, {"mu", Number(v.mu)},       {"epsilon", Number(v.epsilon)},
          {"delta", v.delta},   {"compared", v.compared},   {"findings", findings}};
}

Result<int> Run(const Common& common, const std::string& where) {
  TACIT_OK(common.ExpectNoSets("verify"));
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(where, ignored);
  std::filesystem::path folder;
  if (!is_file) {
    TACIT_TRY(folder, FindRun(where));
  }
  const auto verified = [&]() -> Result<Verification> {
    if (!is_file) return VerifyFolder(folder);
    TACIT_TRY(const std::string bytes, ReadWhole(where, "a certificate.json"));
    TACIT_TRY(const nlohmann::json certificate, ParseCertificate(bytes, where));
    return Verify(certificate, where);
  }();
  if (!verified.ok()) return verified.error();
  const Verification& v = *verified;
  const int code = v.holds() ? 0 : static_cast<int>(Code::kMismatch);
  if (common.json) {
    nlohmann::json document = ToJson(v);
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
  table.Add({"μ recomputed", std::isinf(v.mu) ? "∞" : DigitsUp(v.mu)});
  table.Add({"from", fmt::format("{} rounds of {} noise, {} unit, {} adjacency", Grouped(v.rounds),
                                 v.mechanism, v.unit, v.adjacency)});
  std::string compared;
  for (const std::string& c : v.compared) compared += (compared.empty() ? "" : ", ") + c;
  table.Add({"compared", compared});
  table.Print(stdout, 0);
  return code;
}

}  // namespace

void AddVerify(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "verify", "recompute a certificate and compare every figure",
              "  tacit verify runs/demo-20260101T120000\n"
              "  tacit verify certificate.json --json\n"
              "\nOf a run folder, the certificate is also compared with the config, the model, the ledger\n"
              "and the trace. Every figure that does not hold is named with the value stated and the value\n"
              "recomputed, and the exit code is 8.\n");
  auto where = std::make_shared<std::string>();
  verb->add_option("certificate", *where, "certificate.json, or a run folder")
      ->required()
      ->type_name("FILE|RUN");
  verb->callback([where, &run] { run.action = [where, &run] { return Run(run.common, *where); }; });
}

}  // namespace tacit::cli

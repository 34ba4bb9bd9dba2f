// tacit account claims: what the papers say of their runs, beside what can be proved.
#include <chrono>
#include <memory>

#include "cli.h"
#include "privacy/claims.h"

namespace tacit::cli {
namespace {

using nlohmann::json;

Result<int> Claims(const Common& common, const std::string& paper) {
  TACIT_OK(common.ExpectNoSets("account"));
  const auto begin = std::chrono::steady_clock::now();
  TACIT_TRY(const std::vector<PaperClaim> claims, ClaimsOf(paper));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (common.json) {
    json list = json::array();
    for (const PaperClaim& c : claims)
      list.push_back({{"paper", c.paper},
                      {"setting", c.setting},
                      {"source", c.source},
                      {"formula", c.formula},
                      {"claimed", Number(c.claimed)},
                      {"claimed_delta", c.claimed_delta},
                      {"claimed_for", c.scope},
                      {"published", c.published ? json(*c.published) : json(nullptr)},
                      {"epsilon", Number(c.certified.upper)},
                      {"epsilon_lower", Number(c.certified.lower)},
                      {"delta", c.delta},
                      {"method", c.certified.method},
                      {"adjacency", Name(Adjacency::kReplaceOne)},
                      {"why", c.why},
                      {"reference", c.reference}});
    return PrintJson({{"claims", list}, {"seconds", seconds}});
  }
  Table table({"", "paper", "run", "printed", "claimed ε", "at δ", "for", "certified ε", "at δ"});
  for (std::size_t left : {1u, 2u, 6u}) table.Left(left);
  int number = 0;
  for (const PaperClaim& c : claims)
    table.Add({std::to_string(++number), c.paper, c.setting, c.published ? Digits(*c.published, 6) : "",
               DigitsUp(c.claimed, 8), DigitsUp(c.claimed_delta), c.scope, EpsilonText(c.certified.upper, 8),
               DigitsUp(c.delta)});
  table.Print(stdout, 0);
  fmt::print("certified: of the whole run, replace-one, as upper bounds\n");
  // Runs about which the same is to be said share a note.
  for (std::size_t first = 0; first < claims.size();) {
    const PaperClaim& c = claims[first];
    std::size_t last = first;
    while (last + 1 < claims.size() && claims[last + 1].paper == c.paper &&
           claims[last + 1].source == c.source && claims[last + 1].formula == c.formula &&
           claims[last + 1].why == c.why)
      ++last;
    const std::string title = first == last ? fmt::format("{}  {}, {}", first + 1, c.paper, c.setting)
                                            : fmt::format("{}–{}  {}", first + 1, last + 1, c.paper);
    fmt::print("\n{}\n", Styled(stdout, Style::kBold, title));
    const auto line = [](const char* name, const std::string& text) {
      fmt::print("    {:<9} {}\n", name, Wrapped(text, 14));
    };
    line("says", c.source);
    line("formula", c.formula);
    line("but", c.why);
    line("see", c.reference);
    first = last + 1;
  }
  return 0;
}

}  // namespace

void AddAccountClaims(CLI::App* verb, Invocation& run) {
  CLI::App* sub =
      AddVerb(*verb, run, "claims", "what the papers say of their runs, beside what can be proved",
              "  tacit account claims\n"
              "  tacit account claims --paper fedexp --json\n");
  auto paper = std::make_shared<std::string>();
  sub->add_option("--paper", *paper, "one of primal-dual, ef21, nfl, fedexp, fcrn; all unless given")
      ->type_name("NAME")
      ->check(CLI::IsMember(PaperNames()));
  sub->callback([paper, &run] { run.action = [paper, &run] { return Claims(run.common, *paper); }; });
}

}  // namespace tacit::cli

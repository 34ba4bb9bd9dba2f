// tacit options: every key of an experiment file.
#include <memory>

#include "cli.h"

namespace tacit::cli {
namespace {

Result<int> Run(const Common& common, const std::string& only, bool markdown) {
  TACIT_OK(common.ExpectNoSets("options"));
  if (markdown) {
    fmt::print("{}", OptionsReference());
    return 0;
  }
  Config config;
  const std::vector<Section> sections = Describe(config);
  nlohmann::json all = nlohmann::json::array();
  std::vector<std::string> names;
  bool found = only.empty(), first = true;
  for (const Section& s : sections) {
    names.push_back(s.name());
    for (const Option& o : s.options()) names.push_back(s.name() + "." + o.key);
  }
  for (const Section& s : sections) {
    const bool whole = only.empty() || only == s.name();
    if (!whole && !only.starts_with(s.name() + ".")) continue;
    if (!common.json && whole) {
      fmt::print("{}{}  {}\n", first ? "" : "\n", Styled(stdout, Style::kBold, "[" + s.name() + "]"),
                 s.help());
      first = false;
    }
    for (const Option& o : s.options()) {
      const std::string full = s.name() + "." + o.key;
      if (!whole && only != full) continue;
      found = true;
      all.push_back(
          {{"key", full}, {"type", o.type}, {"range", o.range}, {"default", o.fallback}, {"help", o.help}});
      if (common.json) continue;
      fmt::print("  {} = {}\n      {}\n      {}\n", Styled(stdout, Style::kBold, full), o.fallback,
                 Wrapped(o.help, 6), Wrapped(o.range.empty() ? o.type : o.type + ", " + o.range, 6));
    }
  }
  if (!found) {
    const std::string near = Nearest(only, names);
    return Fail(Code::kInvalidArgument, "{}: no such table or key; {}", only,
                near.empty() ? "tables are data, model, privacy, algorithm, runtime, experiment"
                             : fmt::format("did you mean {}?", near));
  }
  return common.json ? PrintJson({{"options", all}}) : 0;
}

}  // namespace

void AddOptions(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "options", "every key of an experiment file, with default, range and meaning",
              "  tacit options\n"
              "  tacit options privacy\n"
              "  tacit options algorithm.gamma\n"
              "  tacit options --markdown > docs/options.md\n");
  struct Arguments {
    std::string only;
    bool markdown = false;
  };
  auto a = std::make_shared<Arguments>();
  verb->add_option("key", a->only, "one table or key only")->type_name("KEY");
  verb->add_flag("--markdown", a->markdown, "as the reference page docs/options.md");
  verb->callback([a, &run] { run.action = [a, &run] { return Run(run.common, a->only, a->markdown); }; });
}

}  // namespace tacit::cli

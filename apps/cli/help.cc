// tacit help and tacit version.
#include <memory>

#include "cli.h"

namespace tacit::cli {

void AddVersion(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(app, run, "version", "the version of this program", "  tacit version --json\n");
  verb->callback([&run] {
    run.action = [&run]() -> Result<int> {
      TACIT_OK(run.common.ExpectNoSets("version"));
      if (run.common.json) return PrintJson({{"version", TACIT_VERSION}, {"compiler", __VERSION__}});
      fmt::print("tacit {}\n", TACIT_VERSION);
      return 0;
    };
  });
}

void AddHelp(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(app, run, "help", "this overview, or one verb, or exit-codes",
                           "  tacit help train\n  tacit help account gaussian\n  tacit help exit-codes\n"
                           "  tacit help --man man && man -l man/tacit-train.1\n");
  auto manual = std::make_shared<std::string>();
  verb->add_option("--man", *manual, "write the manual pages, one a verb, into DIR")->type_name("DIR");
  auto words = std::make_shared<std::vector<std::string>>();
  verb->add_option("topic", *words, "a verb, or exit-codes")->type_name("VERB")->expected(0, 2);
  verb->callback([words, manual, &run, &app] {
    run.action = [words, manual, &run, &app]() -> Result<int> {
      TACIT_OK(run.common.ExpectNoSets("help"));
      if (!manual->empty()) {
        if (!words->empty())
          return Fail(Code::kInvalidArgument, "{}: --man writes the pages of all verbs; leave it out",
                      words->front());
        TACIT_TRY(const std::vector<std::string> pages, WriteManual(app, *manual));
        if (run.common.json) return PrintJson({{"folder", *manual}, {"pages", pages}});
        fmt::print("{} pages in {}\n", pages.size(), *manual);
        return 0;
      }
      std::string text = MainHelp(app);
      if (!words->empty() && words->front() == "exit-codes") {
        text = kExitCodes;
      } else if (!words->empty()) {
        const CLI::App* at = &app;
        std::string parents;
        for (const std::string& word : *words) {
          std::vector<std::string> verbs = {"exit-codes"};
          for (const CLI::App* v : VerbsOf(*at)) verbs.push_back(v->get_name());
          parents += (parents.empty() ? "" : " ") + at->get_name();
          const CLI::App* next = FindVerb(*at, word);
          if (next == nullptr) {
            const std::string near = Nearest(word, verbs);
            return Fail(Code::kInvalidArgument, "{}: no such verb{}", word,
                        near.empty() ? "; `tacit help` lists them" : fmt::format("; did you mean {}?", near));
          }
          at = next;
        }
        text = at->help(parents);
      }
      if (run.common.json) return PrintJson({{"help", text}});
      fmt::print("{}", text);
      return 0;
    };
  });
}

}  // namespace tacit::cli

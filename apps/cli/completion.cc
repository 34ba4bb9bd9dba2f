// tacit completion: scripts that let a shell complete verbs, flags and keys.
#include <memory>

#include "cli.h"

namespace tacit::cli {
namespace {

std::string Flags(const CLI::App& verb) {
  std::string out;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) out += (out.empty() ? "--" : " --") + name;
  return out;
}

std::string Names(const CLI::App& app) {
  std::string out;
  for (const CLI::App* verb : VerbsOf(app)) out += (out.empty() ? "" : " ") + verb->get_name();
  return out;
}

std::string Keys() {
  Config config;
  std::string out;
  for (const Section& s : Describe(config))
    for (const Option& o : s.options())
      out += fmt::format("{}{}.{}=", out.empty() ? "" : " ", s.name(), o.key);
  return out;
}

std::string Bash(const CLI::App& app) {
  std::string cases, nested;      // nested: verbs that have verbs of their own
  for (const CLI::App* verb : VerbsOf(app)) {
    if (!VerbsOf(*verb).empty()) nested += (nested.empty() ? "" : "|") + verb->get_name();
    cases += fmt::format("    {}) flags='{}'; words='{}' ;;\n", verb->get_name(), Flags(*verb), Names(*verb));
    for (const CLI::App* inner : VerbsOf(*verb))
      cases += fmt::format("    '{} {}') flags='{}'; words='' ;;\n", verb->get_name(), inner->get_name(),
                           Flags(*inner));
  }
  return fmt::format(R"(# bash completion of tacit; use it with: source <(tacit completion bash)
_tacit() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} flags='' words=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$current"))
    return
  fi
  if [ "$previous" = --set ]; then
    compopt -o nospace
    COMPREPLY=($(compgen -W '{}' -- "$current"))
    return
  fi
  local verb=${{COMP_WORDS[1]}}
  case "$verb" in {}) [ "$COMP_CWORD" -gt 2 ] && verb="$verb ${{COMP_WORDS[2]}}" ;; esac
  case "$verb" in
{}  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _tacit tacit
)",
                     Names(app), Keys(), nested, cases);
}

// zsh runs bash's completion functions once bashcompinit is loaded.
std::string Zsh(const CLI::App& app) {
  return "#compdef tacit\n# zsh completion of tacit; use it with: source <(tacit completion zsh)\n"
         "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n" +
         Bash(app);
}

std::string Fish(const CLI::App& app) {
  const auto quoted = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return "'" + text + "'";
  };
  std::string out = "# fish completion of tacit; use it with: tacit completion fish | source\n";
  for (const CLI::App* verb : VerbsOf(app)) {
    out += fmt::format("complete -c tacit -n __fish_use_subcommand -a {} -d {}\n", verb->get_name(),
                       quoted(verb->get_description()));
    for (const CLI::App* inner : VerbsOf(*verb))
      out += fmt::format("complete -c tacit -n '__fish_seen_subcommand_from {}' -a {} -d {}\n",
                         verb->get_name(), inner->get_name(), quoted(inner->get_description()));
    for (const CLI::Option* option : verb->get_options())
      for (const std::string& name : option->get_lnames())
        out += fmt::format("complete -c tacit -n '__fish_seen_subcommand_from {}' -l {} -d {}\n",
                           verb->get_name(), name, quoted(option->get_description()));
  }
  return out + fmt::format("complete -c tacit -l set -x -a '{}'\n", Keys());
}

}  // namespace

void AddCompletion(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(app, run, "completion", "a script that lets your shell complete tacit's words",
                           "  source <(tacit completion bash)\n"
                           "  tacit completion fish | source\n");
  auto shell = std::make_shared<std::string>();
  verb->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->callback([shell, &run, &app] {
    run.action = [shell, &run, &app]() -> Result<int> {
      TACIT_OK(run.common.ExpectNoSets("completion"));
      const std::string script = *shell == "bash" ? Bash(app) : *shell == "zsh" ? Zsh(app) : Fish(app);
      if (run.common.json) return PrintJson({{"shell", *shell}, {"script", script}});
      fmt::print("{}", script);
      return 0;
    };
  });
}

}  // namespace tacit::cli

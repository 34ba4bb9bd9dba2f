// Manual pages, tacit(1) and tacit-VERB(1), in the man macros of roff, from the same words as --help.
#include <filesystem>

#include "cli.h"
#include "experiment/files.h"

namespace tacit::cli {
namespace {

// A backslash and a hyphen mean themselves; a line that begins with a dot or a quote is text, no request.
std::string Roff(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string Header(const std::string& page, std::string_view summary) {
  std::string title = page;
  for (char& c : title)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return fmt::format(".TH \"{}\" 1 \"\" \"tacit {}\" \"Private federated learning\"\n.SH NAME\n{} \\- {}\n",
                     title, TACIT_VERSION, Roff(page), Roff(summary));
}

std::string Verbatim(std::string_view text) {
  return fmt::format(".nf\n{}{}.fi\n", Roff(text), text.ends_with('\n') ? "" : "\n");
}

std::string Tagged(const std::string& tag, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}\n", tag, Roff(text));
}

std::string TypeOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.empty() ? "" : fmt::format(" \\fI{}\\fR", Roff(type));
}

std::string Arguments(const CLI::App& verb) {
  std::string out;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional()) continue;
    const bool required = option->get_required(), many = option->get_expected_max() > 1;
    out += fmt::format(" {}\\fI{}\\fR{}{}", required ? "" : "[", Roff(option->get_name(true)),
                       many ? " ..." : "", required ? "" : "]");
  }
  return out;
}

std::string OptionsText(const CLI::App& verb) {
  std::string positionals, flags;
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_positional()) {
      positionals +=
          Tagged(fmt::format("\\fI{}\\fR", Roff(option->get_name(true))), option->get_description());
      continue;
    }
    std::string tag;
    for (const std::string& s : option->get_snames())
      tag += fmt::format("{}\\-{}", tag.empty() ? "" : ", ", s);
    for (const std::string& l : option->get_lnames())
      tag += fmt::format("{}\\-\\-{}", tag.empty() ? "" : ", ", Roff(l));
    flags += Tagged(tag + TypeOf(*option), option->get_description());
  }
  return (positionals.empty() ? "" : ".SS Arguments\n" + positionals) +
         (flags.empty() ? "" : ".SS Flags\n" + flags);
}

// "Examples:\n  ...\n\nwhat else there is to say": the examples as they are, then the rest.
std::string Footer(const CLI::App& verb) {
  std::string text = verb.get_footer();
  constexpr std::string_view kBegin = "Examples:\n";
  std::string out;
  if (text.starts_with(kBegin)) {
    text.erase(0, kBegin.size());
    const std::size_t end = text.find("\n\n");
    out += ".SH EXAMPLES\n" + Verbatim(text.substr(0, end == std::string::npos ? end : end + 1));
    text.erase(0, end == std::string::npos ? text.size() : end + 2);
  }
  if (text.find_first_not_of('\n') != std::string::npos) out += ".SH NOTES\n" + Verbatim(text);
  return out;
}

std::string VerbPage(const CLI::App& verb) {
  const std::string& name = verb.get_name();
  std::string out = Header("tacit-" + name, verb.get_description()) + ".SH SYNOPSIS\n";
  const std::vector<const CLI::App*> inner = VerbsOf(verb);
  const bool alone = verb.get_require_subcommand_min() == 0;
  if (alone) out += fmt::format("\\fBtacit {}\\fR [flags]{}\n", Roff(name), Arguments(verb));
  for (const CLI::App* v : inner)
    out += fmt::format("{}\\fBtacit {} {}\\fR [flags]{}\n", !alone && v == inner.front() ? "" : ".br\n",
                       Roff(name), Roff(v->get_name()), Arguments(*v));
  out += ".SH OPTIONS\n" + OptionsText(verb);
  for (const CLI::App* v : inner) {
    out += fmt::format(".SH \"{}\"\n{}\n", Roff(name + " " + v->get_name()), Roff(v->get_description()));
    std::string text = OptionsText(*v);
    if (const std::string& footer = v->get_footer(); !footer.empty()) text += ".PP\n" + Verbatim(footer);
    out += text;
  }
  return out + Footer(verb) + ".SH EXIT STATUS\nAs in\n.BR tacit (1).\n.SH SEE ALSO\n.BR tacit (1)\n";
}

std::string MainPage(const CLI::App& app) {
  std::string out =
      Header("tacit", "private federated learning, from a data file to a certified model") +
      ".SH SYNOPSIS\n\\fBtacit\\fR \\fIVERB\\fR [arguments]\n.SH DESCRIPTION\n" +
      Roff(
          "tacit trains models on data of several owners under differential privacy, and "
          "certifies what a run can have told about them. An experiment file names data, model, "
          "privacy and algorithm; a run leaves a folder with its trace, its model and its "
          "certificate.\n") +
      ".SH VERBS\n";
  for (const CLI::App* verb : VerbsOf(app)) out += Tagged(Roff(verb->get_name()), verb->get_description());
  out += ".SH FLAGS OF EVERY VERB\n";
  if (const CLI::App* train = FindVerb(app, "version")) out += OptionsText(*train);
  out += ".SH ENVIRONMENT\n";
  out += Tagged("TACIT_DATA", "the folder of the data sets that are known by name");
  out += Tagged("TACIT_LEDGER", "the file of the data sets' budgets, where the experiment names none");
  out += Tagged("TACIT_PASSPHRASE_FILE", "the file with the passphrase of a signing key");
  out += Tagged("NO_COLOR", "no colours, on a terminal neither");
  out += ".SH FILES\n";
  out += Tagged("\\fIruns/NAME\\fR",
                "a run: config.toml, trace.jsonl, certificate.json, the model and its ledger");
  out += ".SH EXIT STATUS\n" + Verbatim(kExitCodes);
  out += ".SH EXAMPLES\n" +
         Verbatim(
             "  tacit plan experiments/demo.toml        what a run will cost, before any data is touched\n"
             "  tacit train experiments/demo.toml       train, with a certificate at the end\n"
             "  tacit options                           every key an experiment file may hold\n");
  out += ".SH SEE ALSO\n";
  const std::vector<const CLI::App*> verbs = VerbsOf(app);
  for (const CLI::App* verb : verbs)
    out += fmt::format(".BR tacit\\-{} (1){}\n", Roff(verb->get_name()), verb == verbs.back() ? "" : ",");
  return out;
}

}  // namespace

Result<std::vector<std::string>> WriteManual(const CLI::App& app, const std::string& folder) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) return Fail(Code::kIo, "{}: cannot be made: {}", folder, ec.message());
  std::vector<std::string> pages = {"tacit.1"};
  TACIT_OK(WriteWhole(std::filesystem::path(folder) / pages.front(), MainPage(app)));
  for (const CLI::App* verb : VerbsOf(app)) {
    pages.push_back(fmt::format("tacit-{}.1", verb->get_name()));
    TACIT_OK(WriteWhole(std::filesystem::path(folder) / pages.back(), VerbPage(*verb)));
  }
  return pages;
}

}  // namespace tacit::cli

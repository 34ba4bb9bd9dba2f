#pragma once

// Names of runs, tags and values of configs come from files that anybody may have written. Before they are
// shown they go through the function of the place where they will stand.
#include <string>
#include <string_view>

namespace tacit {

// For a terminal: control characters, which could move the cursor or change its settings, and bytes that are
// no UTF-8 become "?".
std::string Printable(std::string_view);
std::string HtmlEscaped(std::string_view);      // for the text or a quoted attribute of HTML and SVG
std::string TexEscaped(std::string_view);       // for the text of LaTeX
std::string MarkdownEscaped(std::string_view);  // for a cell of a Markdown table
std::string CsvEscaped(std::string_view);       // a field of a CSV file, quoted where it must be

}  // namespace tacit

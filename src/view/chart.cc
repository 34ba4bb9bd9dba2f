#include "view/chart.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>

#include "view/downsample.h"
#include "view/text.h"

namespace tacit {
namespace {

constexpr std::size_t kPoints = 1000;
// Okabe and Ito's colours without the yellow, which is lost on white; brighter ones on dark ground.
constexpr std::array<const char*, 7> kLight = {"#0072b2", "#c44f00", "#00805d", "#a8437f",
                                               "#9a6700", "#2f7fb5", "#5f6772"};
constexpr std::array<const char*, 7> kDark = {"#58a6ff", "#f0883e", "#2fc79a", "#e29bc4",
                                              "#e3b341", "#8fd0f5", "#b1bac4"};
constexpr std::array<const char*, 7> kDashes = {"", "8 4", "2 3", "10 3 2 3", "14 5", "5 2 1 2 1 2", "1 4"};

// An axis: from values to 0 … 1, with ticks.
struct Axis {
  double low = 0, high = 1;  // logarithms on a log axis
  bool log = false;
  std::vector<std::pair<double, std::string>> ticks;  // position on the axis, text

  double At(double v) const { return ((log ? std::log10(v) : v) - low) / (high - low); }
  bool Shows(double v) const { return std::isfinite(v) && (!log || v > 0); }
};

std::string PowerOfTen(int n) {
  static const char* const kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = n < 0 ? "10⁻" : "10";
  for (const char c : fmt::format("{}", std::abs(n))) out += kDigits[c - '0'];
  return out;
}

Axis MakeAxis(const std::vector<double>& values, bool log, double margin) {
  Axis axis;
  axis.log = log;
  bool any = false;
  for (const double v : values) {
    if (!axis.Shows(v)) continue;
    const double at = log ? std::log10(v) : v;
    axis.low = any ? std::min(axis.low, at) : at;
    axis.high = any ? std::max(axis.high, at) : at;
    any = true;
  }
  if (!any) axis.low = 0, axis.high = 1;
  const double span = axis.high - axis.low;
  if (!(span > 1e-12 * std::max(std::abs(axis.low), std::abs(axis.high)))) {  // one value only
    const double around = log ? 0.5 : axis.low == 0 ? 1 : std::abs(axis.low) * 0.1;
    axis.low -= around;
    axis.high += around;
  } else {
    axis.low -= margin * span;
    axis.high += margin * span;
  }
  if (!log) {
    const std::vector<double> at = LinearTicks(axis.low, axis.high);
    const double step = at.size() > 1 ? at[1] - at[0] : 1;
    for (const double v : at) axis.ticks.emplace_back(v, TickText(v, step));
    return axis;
  }
  const int from = static_cast<int>(std::ceil(axis.low)), to = static_cast<int>(std::floor(axis.high));
  const int every = std::max(1, (to - from + 1) / 8);
  for (int n = from; n <= to; ++n)
    if ((n - from) % every == 0) axis.ticks.emplace_back(n, PowerOfTen(n));
  if (axis.ticks.size() >= 2) return axis;
  axis.ticks.clear();  // less than a decade or two: figures between the powers too
  const std::vector<double> near = axis.high - axis.low > 0.6 ? std::vector<double>{1, 2, 5}
                                                              : std::vector<double>{1, 1.5, 2, 3, 4, 5, 6, 8};
  for (int n = from - 1; n <= to + 1; ++n)
    for (const double m : near)
      if (const double at = n + std::log10(m); at >= axis.low && at <= axis.high)
        axis.ticks.emplace_back(at, fmt::format("{:.3g}", std::pow(10.0, at)));
  if (axis.ticks.size() >= 2) return axis;
  axis.ticks.clear();  // hardly a range at all
  const double from_value = std::pow(10.0, axis.low), to_value = std::pow(10.0, axis.high);
  const std::vector<double> even = LinearTicks(from_value, to_value);
  for (const double v : even)
    if (v > 0) axis.ticks.emplace_back(std::log10(v), TickText(v, even.size() > 1 ? even[1] - even[0] : v));
  return axis;
}

std::string Cut(const std::string& text, std::size_t most) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U) continue;
    if (n++ == most) return text.substr(0, i) + "…";
  }
  return text;
}
std::size_t Letters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// Lines of at most so many letters, broken after commas: what tells two labels apart may be at their ends.
std::vector<std::string> Broken(const std::string& text, std::size_t most) {
  std::vector<std::string> lines = {""};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = text.find(", ", at);
    const std::size_t next = comma == std::string::npos ? text.size() : comma + 2;
    const std::string part = text.substr(at, next - at);
    if (!lines.back().empty() && Letters(lines.back()) + Letters(part) > most)
      lines.push_back(part);
    else
      lines.back() += part;
    at = next;
  }
  for (std::string& line : lines) line = Cut(line, most);
  return lines;
}

std::string LegendText(const Curve& c) {
  return c.seeds > 1 ? fmt::format("{} ({} seeds)", c.label, c.seeds) : c.label;
}

struct Entry {  // of the legend
  double x = 0, y = 0;
  std::size_t curve = 0;
  std::string text;
  bool sample = true;  // false: the text goes on from the line above
};

class SvgWriter {
 public:
  SvgWriter(const Chart& chart, ChartSize size, std::string id) : c_(chart), id_(std::move(id)) {
    std::vector<double> xs, ys;
    for (const Curve& one : c_.curves)
      for (std::size_t i = 0; i < one.x.size(); ++i) {
        if ((c_.log_x && !(one.x[i] > 0)) || (c_.log_y && !(one.y[i] > 0))) continue;
        xs.push_back(one.x[i]);
        ys.push_back(one.y[i]);
        if (!one.low.empty()) ys.insert(ys.end(), {one.low[i], one.high[i]});
      }
    for (const Rule& rule : c_.rules) ys.push_back(rule.y);
    x_ = MakeAxis(xs, c_.log_x, 0.0);
    y_ = MakeAxis(ys, c_.log_y, 0.04);
    width_ = size.width;
    right_ = width_ - 16;
    std::size_t widest = 3;
    for (const auto& [at, text] : y_.ticks) widest = std::max(widest, Letters(text));
    left_ = 38 + 7.0 * static_cast<double>(widest);
    top_ = 34;
    bottom_ = size.height - 48;
    double at_x = left_, at_y = size.height + 10;
    if (c_.curves.size() > 1 || (c_.curves.size() == 1 && c_.curves[0].seeds > 1)) {
      for (std::size_t k = 0; k < c_.curves.size(); ++k) {
        const auto lines =
            Broken(LegendText(c_.curves[k]), static_cast<std::size_t>((right_ - left_ - 44) / 6.6));
        for (std::size_t l = 0; l < lines.size(); ++l) {
          const double wide = 44 + 6.6 * static_cast<double>(Letters(lines[l]));
          if (at_x > left_ && (l > 0 || lines.size() > 1 || at_x + wide > right_)) at_x = left_, at_y += 19;
          entries_.push_back({at_x, at_y, k, lines[l], l == 0});
          at_x += wide + 12;
        }
      }
      at_y += 19;
    }
    note_ = at_y;
    height_ = c_.note.empty() ? at_y - (entries_.empty() ? 4 : 6) : at_y + 12;
  }

  std::string Write(bool alone) const {
    std::string out = fmt::format(
        "<svg {}class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-labelledby=\"{}t {}d\">\n"
        "<title id=\"{}t\">{}</title>\n<desc id=\"{}d\">{}</desc>\n",
        alone ? fmt::format("xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" ",
                            width_, height_)
              : "",
        width_, height_, id_, id_, id_, HtmlEscaped(c_.title), id_, HtmlEscaped(c_.description));
    if (alone) out += fmt::format("<style>{}</style>\n", ChartStyle("svg.chart"));
    if (alone)
      out += fmt::format("<rect class=\"ground\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n", width_, height_);
    out += fmt::format("<text class=\"title\" x=\"{:.1f}\" y=\"20\">{}</text>\n", left_,
                       HtmlEscaped(Cut(c_.title, static_cast<std::size_t>((right_ - left_) / 8.4))));
    Axes(out);
    for (const Rule& rule : c_.rules) {
      if (!y_.Shows(rule.y)) continue;
      out += fmt::format("<path class=\"rule\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", left_, Y(rule.y), right_);
      out += fmt::format("<text class=\"small end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", right_ - 4,
                         Y(rule.y) - 5, HtmlEscaped(rule.label));
    }
    for (std::size_t k = 0; k < c_.curves.size(); ++k) Bandage(out, k);
    for (std::size_t k = 0; k < c_.curves.size(); ++k) Line(out, k);
    for (const Entry& e : entries_)
      out += fmt::format("{}<text x=\"{:.1f}\" y=\"{:.1f}\">{}<title>{}</title></text>\n",
                         e.sample ? fmt::format("<path class=\"line c{}\"{} d=\"M{:.1f} {:.1f}h28\"/>",
                                                e.curve % kLight.size(), Dash(e.curve), e.x, e.y - 4)
                                  : "",
                         e.x + 36, e.y, HtmlEscaped(e.text), HtmlEscaped(LegendText(c_.curves[e.curve])));
    if (!c_.note.empty())
      out += fmt::format("<text class=\"small\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", left_, note_,
                         HtmlEscaped(c_.note));
    return out + "</svg>\n";
  }

 private:
  double X(double v) const { return left_ + x_.At(v) * (right_ - left_); }
  double Y(double v) const { return bottom_ - y_.At(v) * (bottom_ - top_); }
  static std::string Dash(std::size_t k) {
    // Colours come again after seven curves, and dashes then begin one further on.
    const char* dash = kDashes[(k + k / kLight.size()) % kDashes.size()];
    return *dash == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash);
  }
  void Axes(std::string& out) const {
    std::string grid;
    for (const auto& [at, text] : y_.ticks) {
      const double y = bottom_ - (at - y_.low) / (y_.high - y_.low) * (bottom_ - top_);
      grid += fmt::format("M{:.1f} {:.1f}H{:.1f}", left_, y, right_);
      out += fmt::format("<text class=\"small end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", left_ - 6, y + 4,
                         text);
    }
    for (const auto& [at, text] : x_.ticks) {
      const double x = left_ + (at - x_.low) / (x_.high - x_.low) * (right_ - left_);
      grid += fmt::format("M{:.1f} {:.1f}v5", x, bottom_);
      out += fmt::format("<text class=\"small middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x,
                         bottom_ + 18, text);
    }
    out += fmt::format("<path class=\"grid\" d=\"{}\"/>\n", grid);
    out += fmt::format("<path class=\"frame\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>\n", left_, top_, bottom_,
                       right_);
    out += fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", (left_ + right_) / 2,
                       bottom_ + 38, HtmlEscaped(c_.x_label + (c_.log_x ? " (log)" : "")));
    out += fmt::format("<text class=\"middle\" transform=\"translate(14 {:.1f}) rotate(-90)\">{}</text>\n",
                       (top_ + bottom_) / 2, HtmlEscaped(c_.y_label + (c_.log_y ? " (log)" : "")));
  }
  // The curve without points that a log axis cannot show; y: which of its columns.
  void Shown(const Curve& c, const std::vector<double>& y, std::vector<double>& ox,
             std::vector<double>& oy) const {
    std::vector<double> fx, fy;
    for (std::size_t i = 0; i < std::min(c.x.size(), y.size()); ++i)
      if (x_.Shows(c.x[i]) && y_.Shows(y[i])) fx.push_back(c.x[i]), fy.push_back(y[i]);
    Downsample(fx, fy, kPoints, ox, oy);
  }
  void Line(std::string& out, std::size_t k) const {
    std::vector<double> x, y;
    Shown(c_.curves[k], c_.curves[k].y, x, y);
    if (x.empty()) return;
    std::string path;
    for (std::size_t i = 0; i < x.size(); ++i)
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? 'M' : 'L', X(x[i]), Y(y[i]));
    out += fmt::format("<path class=\"line c{}\"{} d=\"{}\"/>\n", k % kLight.size(), Dash(k), path);
    if (!c_.markers && x.size() > 1) return;
    for (std::size_t i = 0; i < x.size(); ++i)
      out += fmt::format("<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n",
                         k % kLight.size(), X(x[i]), Y(y[i]));
  }
  void Bandage(std::string& out, std::size_t k) const {
    const Curve& c = c_.curves[k];
    if (c.low.empty()) return;
    std::vector<double> low = c.low, x, y;
    // What a log axis cannot show of a band ends at the axis.
    if (y_.log)
      for (double& v : low) v = std::max(v, std::pow(10.0, y_.low));
    std::string path;
    Shown(c, c.high, x, y);
    for (std::size_t i = 0; i < x.size(); ++i)
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? 'M' : 'L', X(x[i]), Y(y[i]));
    Shown(c, low, x, y);
    for (std::size_t i = x.size(); i-- > 0;) path += fmt::format("L{:.1f} {:.1f}", X(x[i]), Y(y[i]));
    if (path.starts_with('M'))
      out += fmt::format("<path class=\"band c{}\" d=\"{}Z\"/>\n", k % kLight.size(), path);
  }

  const Chart& c_;
  std::string id_;
  Axis x_, y_;
  double width_ = 0, height_ = 0, left_ = 0, right_ = 0, top_ = 0, bottom_ = 0, note_ = 0;
  std::vector<Entry> entries_;
};

// A text as gnuplot's single-quoted string, in which nothing is expanded. A quote, which gnuplot lets be
// written twice and then does not always read so, becomes a typographic one: no text ends its string. A line
// break, which would end the command, does not survive Printable; a backslash is kept away from the closing
// quote.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : Printable(text)) out += c == '\'' ? std::string("’") : std::string(1, c);
  return out + (out.ends_with('\\') ? " '" : "'");
}

struct Closed {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Closed>;

}  // namespace

std::vector<double> LinearTicks(double low, double high, int about) {
  const double raw = (high - low) / about;
  if (!(raw > 0) || !std::isfinite(raw)) return {low};
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double m : {1.0, 2.0, 2.5, 5.0})
    if (m * power >= raw * 0.999) {
      step = m * power;
      break;
    }
  std::vector<double> ticks;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step && ticks.size() < 50; ++k)
    ticks.push_back(k * step);
  return ticks;
}

std::string TickText(double v, double step) {
  if (std::abs(v) < step * 1e-9) return "0";
  const double most = std::max(std::abs(v), step);
  static constexpr std::pair<double, const char*> kUnits[] = {
      {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  if (most >= 1e4 && most < 1e18)
    for (const auto& [unit, name] : kUnits)
      if (std::abs(v) >= unit) return fmt::format("{:.6g}{}", v / unit, name);
  if (most >= 1e18 || most < 1e-4) return fmt::format("{:.3g}", v);
  // As many decimals as the step needs.
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 8);
  const bool halves =
      std::abs(step * std::pow(10.0, decimals) - std::round(step * std::pow(10.0, decimals))) > 1e-6;
  return fmt::format("{:.{}f}", v, decimals + (halves ? 1 : 0));
}

std::string ChartStyle(const std::string& root) {
  std::string light, dark, lines;
  for (std::size_t k = 0; k < kLight.size(); ++k) {
    light += fmt::format("--c{}:{};", k, kLight[k]);
    dark += fmt::format("--c{}:{};", k, kDark[k]);
    lines += fmt::format(".line.c{0}{{stroke:var(--c{0})}}.band.c{0},.dot.c{0}{{fill:var(--c{0})}}", k);
  }
  return fmt::format(
      "{0}{{--ink:#1f2328;--soft:#59636e;--rule:#d1d9e0;--paper:#ffffff;{1}}}"
      "@media "
      "(prefers-color-scheme:dark){{{0}{{--ink:#e6edf3;--soft:#9da7b1;--rule:#3d444d;--paper:#0d1117;{2}}}}}"
      ".chart text{{font:12px system-ui,sans-serif;fill:var(--ink)}}.chart "
      ".small{{font-size:11px;fill:var(--soft)}}"
      ".chart .title{{font-size:14px;font-weight:600}}.chart .end{{text-anchor:end}}.chart "
      ".middle{{text-anchor:middle}}"
      ".ground{{fill:var(--paper)}}.grid{{stroke:var(--rule);stroke-width:.7;fill:none}}"
      ".frame{{stroke:var(--soft);fill:none}}.rule{{stroke:var(--ink);stroke-dasharray:3 3;fill:none}}"
      ".line{{fill:none;stroke-width:1.8;stroke-linejoin:round}}.band{{opacity:.2}}{3}",
      root, light, dark, lines);
}

std::string ChartSvg(const Chart& chart, ChartSize size) { return SvgWriter(chart, size, "").Write(true); }
std::string ChartInPage(const Chart& chart, const std::string& id, ChartSize size) {
  return SvgWriter(chart, size, id).Write(false);
}

std::string DotsSvg(const Chart& c, int wide) {
  constexpr double kLine = 22;
  constexpr std::size_t kLabel = 40;
  const double width = wide, right = width - 60, top = 34;
  std::vector<double> values;
  std::size_t longest = 4;
  for (const Curve& one : c.curves) {
    if (one.y.empty()) continue;
    values.insert(values.end(), {one.y[0], one.low.empty() ? one.y[0] : one.low[0],
                                 one.high.empty() ? one.y[0] : one.high[0]});
    longest = std::max(longest, std::min(kLabel, Letters(one.label)));
  }
  const double left = 20 + 6.6 * static_cast<double>(longest);
  const Axis axis = MakeAxis(values, c.log_y, 0.04);
  const auto at = [&](double v) { return left + std::clamp(axis.At(v), 0.0, 1.0) * (right - left); };
  const double bottom = top + kLine * static_cast<double>(c.curves.size()) + 6;
  const double height = bottom + (c.note.empty() ? 46 : 62);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" role=\"img\" aria-labelledby=\"t d\">\n<title id=\"t\">{2}</title>\n<desc "
      "id=\"d\">{3}</desc>\n"
      "<style>{4}</style>\n<rect class=\"ground\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n"
      "<text class=\"title\" x=\"12\" y=\"20\">{5}</text>\n",
      width, height, HtmlEscaped(c.title), HtmlEscaped(c.description), ChartStyle("svg.chart"),
      HtmlEscaped(Cut(c.title, static_cast<std::size_t>((width - 24) / 8.4))));
  std::string grid;
  for (const auto& [v, text] : axis.ticks) {
    const double x = left + (v - axis.low) / (axis.high - axis.low) * (right - left);
    grid += fmt::format("M{:.1f} {:.1f}V{:.1f}", x, top, bottom);
    out += fmt::format("<text class=\"small middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, bottom + 16,
                       text);
  }
  out += fmt::format("<path class=\"grid\" d=\"{}\"/>\n", grid);
  for (std::size_t k = 0; k < c.curves.size(); ++k) {
    const Curve& one = c.curves[k];
    const double y = top + kLine * (static_cast<double>(k) + 0.6);
    out += fmt::format("<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}<title>{}</title></text>\n", left - 8,
                       y + 4, HtmlEscaped(Cut(one.label, kLabel)), HtmlEscaped(one.label));
    if (one.y.empty() || !axis.Shows(one.y[0])) continue;
    if (!one.low.empty() && one.high[0] > one.low[0])
      out += fmt::format("<path class=\"line c0\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n",
                         axis.Shows(one.low[0]) ? at(one.low[0]) : left, y, at(one.high[0]));
    out += fmt::format("<circle class=\"dot c0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", at(one.y[0]), y);
    out += fmt::format("<text class=\"small\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", right + 6, y + 4,
                       c.epsilon_y ? EpsilonShown(one.y[0]) : fmt::format("{:.4g}", one.y[0]));
  }
  out += fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", (left + right) / 2,
                     bottom + 36, HtmlEscaped(c.y_label + (c.log_y ? " (log)" : "")));
  if (!c.note.empty())
    out += fmt::format("<text class=\"small\" x=\"12\" y=\"{:.1f}\">{}</text>\n", bottom + 54,
                       HtmlEscaped(c.note));
  return out + "</svg>\n";
}

std::string ChartTable(const Chart& chart, std::size_t rows) {
  std::string out;
  for (const Curve& c : chart.curves) {
    TextTable t;
    t.header = {chart.x_label, chart.y_label};
    if (!c.low.empty()) t.header.insert(t.header.end(), {"band from", "to"});
    const std::size_t n = c.x.size(), shown = std::min(n, std::max<std::size_t>(rows, 2));
    for (std::size_t k = 0; k < shown; ++k) {
      const std::size_t i = n <= shown ? k : k * (n - 1) / (shown - 1);
      const auto text = [](double v, bool epsilon) {
        return epsilon ? EpsilonShown(v) : fmt::format("{:.6g}", v);
      };
      t.rows.push_back({text(c.x[i], chart.epsilon_x), text(c.y[i], chart.epsilon_y)});
      if (!c.low.empty())
        t.rows.back().insert(t.rows.back().end(),
                             {text(c.low[i], chart.epsilon_y), text(c.high[i], chart.epsilon_y)});
    }
    out += ToHtml(t, shown < n ? fmt::format("{}: {} of {} points", LegendText(c), shown, n) : LegendText(c));
  }
  return out;
}

std::string GnuplotScript(const Chart& chart, Picture picture, ChartSize size) {
  std::string out = "set encoding utf8\n";
  // Of a page 96 points are an inch; a picture of dots has twice as many, for paper.
  out += picture == Picture::kPdf
             ? fmt::format("set terminal pdfcairo noenhanced font 'sans,11' size {:.3f}in,{:.3f}in\n",
                           size.width / 96.0, size.height / 96.0)
             : fmt::format(
                   "set terminal pngcairo noenhanced font 'sans,11' fontscale 1.6 linewidth 1.6 size {},{}\n",
                   2 * size.width, 2 * size.height);
  out += "set border 3\nset tics nomirror\nset grid ytics lc rgb '#d1d9e0' lw 0.7\n";
  out += "set key below left Left reverse noautotitle\nset style fill transparent solid 0.2 noborder\n";
  if (!chart.title.empty()) out += "set title " + Quoted(chart.title) + " noenhanced\n";
  out += "set xlabel " + Quoted(chart.x_label) + " noenhanced\nset ylabel " + Quoted(chart.y_label) +
         " noenhanced\n";
  if (chart.log_x) out += "set logscale x\nset format x '%g'\n";
  if (chart.log_y) out += "set logscale y\nset format y '%g'\n";
  const auto good = [&](double x, double y) {
    return std::isfinite(x) && std::isfinite(y) && (!chart.log_x || x > 0) && (!chart.log_y || y > 0);
  };
  std::vector<std::string> bands, lines;
  std::string data;
  bool any = false;
  double left = 0, right = 1;
  for (std::size_t k = 0; k < chart.curves.size(); ++k) {
    const Curve& c = chart.curves[k];
    std::vector<double> x, y;
    Downsample(c.x, c.y, 4 * kPoints, x, y);
    data += fmt::format("$line{} << END\n", k);
    std::size_t rows = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!good(x[i], y[i])) continue;
      data += fmt::format("{} {}\n", x[i], y[i]);
      left = any ? std::min(left, x[i]) : x[i];
      right = any ? std::max(right, x[i]) : x[i];
      any = true;
      ++rows;
    }
    data += "END\n";
    if (rows == 0) continue;
    const char* colour = kLight[k % kLight.size()];
    if (!c.low.empty()) {
      data += fmt::format("$band{} << END\n", k);
      for (std::size_t i = 0; i < c.x.size(); ++i) {
        if (!good(c.x[i], c.y[i]) || !good(c.x[i], c.high[i])) continue;
        data +=
            fmt::format("{} {} {}\n", c.x[i], chart.log_y && !(c.low[i] > 0) ? c.y[i] : c.low[i], c.high[i]);
      }
      data += "END\n";
      bands.push_back(fmt::format("$band{} using 1:2:3 with filledcurves lc rgb '{}' notitle", k, colour));
    }
    lines.push_back(fmt::format(
        "$line{} using 1:2 with {} lc rgb '{}' lw 2 dt {} pt 7 ps 0.5 title {} noenhanced", k,
        chart.markers || rows == 1 ? "linespoints" : "lines", colour, k % 5 + 1, Quoted(LegendText(c))));
  }
  for (std::size_t k = 0; k < chart.rules.size(); ++k) {
    if (!good(1, chart.rules[k].y) || !any) continue;
    data += fmt::format("$rule{} << END\n{} {}\n{} {}\nEND\n", k, left, chart.rules[k].y, right,
                        chart.rules[k].y);
    lines.push_back(fmt::format("$rule{} using 1:2 with lines lc rgb '#1f2328' dt 3 title {} noenhanced", k,
                                Quoted(chart.rules[k].label)));
  }
  if (!chart.note.empty())
    lines.push_back("1/0 with lines lc rgb '#ffffff' title " + Quoted(chart.note) + " noenhanced");
  if (!any) return "";
  out += data + "plot ";
  bool first = true;
  for (const auto* part : {&bands, &lines})
    for (const std::string& one : *part) {
      out += (first ? "" : ", \\\n  ") + one;
      first = false;
    }
  return out + "\n";
}

Result<std::string> ChartByGnuplot(const Chart& chart, Picture picture, ChartSize size) {
  const std::string script = GnuplotScript(chart, picture, size);
  if (script.empty()) return Fail(Code::kInvalidArgument, "the chart has no point that can be drawn");
  // Files instead of pipes in both directions: neither side can wait for the other.
  const File in(std::tmpfile()), out(std::tmpfile());
  if (in == nullptr || out == nullptr ||
      std::fwrite(script.data(), 1, script.size(), in.get()) != script.size() || std::fflush(in.get()) != 0 ||
      std::fseek(in.get(), 0, SEEK_SET) != 0)
    return Fail(Code::kIo, "a temporary file cannot be written; free some space, or write an .svg");
  const pid_t child = ::fork();
  if (child < 0) return Fail(Code::kIo, "gnuplot cannot be started; end some processes, or write an .svg");
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || ::lseek(::fileno(in.get()), 0, SEEK_SET) != 0 || ::dup2(::fileno(in.get()), 0) < 0 ||
        ::dup2(::fileno(out.get()), 1) < 0 || ::dup2(null, 2) < 0)
      ::_exit(126);
    ::execlp("gnuplot", "gnuplot", "-d", static_cast<char*>(nullptr));  // -d: nobody's settings
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return Fail(Code::kUnsupported,
                "gnuplot is not installed, and PNG and PDF are drawn by it; install the Debian package "
                "gnuplot-nox, or write an .svg");
  std::string bytes;
  std::array<char, 65536> block{};
  for (ssize_t n = 0;
       (n = ::pread(::fileno(out.get()), block.data(), block.size(), static_cast<off_t>(bytes.size()))) > 0;)
    bytes.append(block.data(), static_cast<std::size_t>(n));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || bytes.empty())
    return Fail(Code::kIo, "gnuplot failed; write an .svg instead, which needs no gnuplot");
  return bytes;
}

}  // namespace tacit

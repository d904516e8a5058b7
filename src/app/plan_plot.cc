// The curves of cache plans, drawn by gnuplot.
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "app/plan_compare.h"
#include "app/plan_text.h"
#include "seekline/accounting.h"
#include "seekline/error.h"

namespace seekline {
namespace {

// Colours that stay apart for most eyes, first generations dark.
constexpr const char* kColours[] = {"#333333", "#785ef0", "#648fff", "#1b9e9e",
                                    "#ffb000", "#fe6100", "#dc267f"};
constexpr std::size_t kColourCount = std::size(kColours);

// As gnuplot reads it between single quotes: control characters, which could end the line, become blanks.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' ? std::string("''") : std::string(1, static_cast<unsigned char>(c) < ' ' ? ' ' : c);
  return out + "'";
}

// The terminal's own units differ: what is legible in one is small in the other.
struct Terminal {
  const char* settings;
  int small_font;  // of legends and figures over bars
};

Terminal terminal_of(const std::string& path) {
  const auto ends = [&](const char* ending) { return path.size() > 4 && path.ends_with(ending); };
  if (ends(".svg")) return {"svg size 1650,600 font 'DejaVu Sans,16' background '#ffffff' noenhanced", 14};
  if (ends(".png"))
    return {"pngcairo size 1650,600 font 'DejaVu Sans,12' background '#ffffff' noenhanced", 11};
  throw Error(ErrorCode::kUsage, fmt::format("--plot {}: the name must end in .svg or .png", path));
}

// One data block a model: context, read bytes, cache bytes; and one of all models: place, stored bytes, the
// same as people read it.
std::string data_blocks(const std::vector<NamedPlan>& plans) {
  std::string text;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    text += fmt::format("$m{} << EOD\n", i);
    for (const std::int64_t n : curve_contexts())
      text += fmt::format("{} {} {}\n", n, plans[i].plan.reads(n).total(), cache_bytes(plans[i].plan, n));
    text += "EOD\n";
  }
  text += "$stored << EOD\n";
  for (std::size_t i = 0; i < plans.size(); ++i)
    text += fmt::format("{} {} \"{}\"\n", i, plans[i].plan.stored_bytes_per_token(),
                        decimal_number(plans[i].plan.stored_bytes_per_token()));
  return text + "EOD\n";
}

// Every second line is thin, so that it does not hide an equal one below it.
std::string curves(const std::vector<NamedPlan>& plans, int column) {
  std::string text = "plot ";
  for (std::size_t i = 0; i < plans.size(); ++i)
    text +=
        fmt::format("{}$m{} using 1:{} with lines linewidth {} linecolor rgb '{}' title {}", i ? ", " : "", i,
                    column, i % 2 ? 2 : 5, kColours[i % kColourCount], quoted(plans[i].name));
  return text + "\n";
}

std::string bars(const std::vector<NamedPlan>& plans, int font) {
  std::string text = "plot ";
  for (std::size_t i = 0; i < plans.size(); ++i)
    text += fmt::format(
        "$stored every ::{0}::{0} using 1:2 with boxes fillstyle solid 0.85 noborder linecolor rgb '{1}' "
        "notitle, ",
        i, kColours[i % kColourCount]);
  return text + fmt::format("$stored using 1:($2*1.35):3 with labels font ',{}' notitle\n", font);
}

// The models' names below the bars.
std::string names(const std::vector<NamedPlan>& plans) {
  std::string text;
  for (std::size_t i = 0; i < plans.size(); ++i)
    text += fmt::format("{}{} {}", i ? ", " : "", quoted(plans[i].name), i);
  return text;
}

std::string script(const std::vector<NamedPlan>& plans, const std::string& path) {
  const Terminal terminal = terminal_of(path);
  return fmt::format(
      "set terminal {}\nset output {}\n{}"
      "set multiplot layout 1,3\n"
      "set grid ytics linetype 1 linecolor rgb '#dddddd'\nset border 3\nset tics nomirror\nset boxwidth 0.7\n"
      "set logscale y 10\n"
      "set title 'Stored bytes per token'\nset ylabel 'bytes (log)'\nset format y '%.0s %c'\n"
      "set xtics rotate by -35 ({})\nset xrange [-0.9:{}.6]\nset yrange [100:*]\nset lmargin 9\nset bmargin "
      "6\n"
      "{}"
      "set logscale x 2\nset xrange [{}:{}]\nset yrange [*:*]\nset xtics norotate\nset xtics ({})\n"
      "set xlabel 'context, tokens'\nset key top left reverse Left samplen 1.5 font ',{}'\nset format y "
      "'%.0s %cB'\n"
      "set title 'Read for one generated token'\nset ylabel 'bytes (log)'\n{}"
      "set title 'Cache of one sequence'\n{}"
      "unset multiplot\n",
      terminal.settings, quoted(path), data_blocks(plans), names(plans), plans.size() - 1,
      bars(plans, terminal.small_font), curve_contexts().front(), curve_contexts().back(),
      "'128' 128, '1K' 1024, '8K' 8192, '64K' 65536, '1M' 1048576", terminal.small_font, curves(plans, 2),
      curves(plans, 3));
}

}  // namespace

void plot_plans(const std::vector<NamedPlan>& plans, const std::string& path) {
  const std::string text = script(plans, path);
  if (std::system("command -v gnuplot >/dev/null 2>&1") != 0)
    throw Error(ErrorCode::kNotFound,
                "--plot needs the program gnuplot (Debian: gnuplot-nox; ./dev setup installs it)");
  std::FILE* gnuplot = popen("gnuplot -", "w");
  if (gnuplot == nullptr) throw Error(ErrorCode::kIo, "gnuplot could not be started");
  std::fwrite(text.data(), 1, text.size(), gnuplot);
  if (pclose(gnuplot) != 0) throw Error(ErrorCode::kIo, fmt::format("gnuplot could not draw {}", path));
}

}  // namespace seekline

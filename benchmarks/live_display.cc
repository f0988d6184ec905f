#include "benchmarks/live_display.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "benchmarks/bottleneck_text.h"

namespace millrace {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(200);

bool says_utf8(const char* variable, bool& said) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return false;
  said = true;
  const std::string_view text = value;
  return text.find("UTF-8") != std::string_view::npos || text.find("utf8") != std::string_view::npos;
}

// The first of these that is set decides, as in setlocale.
bool terminal_takes_unicode() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    bool said = false;
    const bool utf8 = says_utf8(variable, said);
    if (said) return utf8;
  }
  return false;
}

// Everything that is written here takes one column a character.
size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string cut(std::string_view text, size_t columns) {
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xC0) != 0x80 && seen++ == columns) return std::string(text.substr(0, i));
  }
  return std::string(text);
}

// In eighths of a column where the terminal has them. Others are drawn as blanks.
std::string bar(double share, size_t width, bool unicode) {
  share = std::clamp(share, 0.0, 1.0);
  std::string text;
  if (!unicode) {
    const auto full = static_cast<size_t>(std::lround(share * static_cast<double>(width)));
    return std::string(full, '#') + std::string(width - full, '.');
  }
  static constexpr const char* kEighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<size_t>(std::lround(share * static_cast<double>(8 * width)));
  for (size_t column = 0; column < width; ++column) {
    const size_t begun = eighths > 8 * column ? eighths - 8 * column : 0;
    text += begun >= 8 ? "█" : kEighths[begun];
  }
  return text;
}

std::string thousands(double value) {
  const std::string digits = fmt::format("{:.0f}", value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

std::vector<std::string> DisplayedRun::lines(size_t width) const {
  const double seconds = std::max(1e-9, now.seconds - before.seconds);
  const auto rate = [seconds](int64_t from, int64_t to) { return static_cast<double>(to - from) / seconds; };
  std::vector<std::string> all = {heading};
  all.push_back(fmt::format("  {:>12} records/s  {:>9.1f} MB/s  {:>5.0f}% CPU  {:>6.0f} MB memory",
                            thousands(rate(before.records, now.records)), 1e-6 * rate(before.bytes, now.bytes),
                            100 * (now.cpu_seconds - before.cpu_seconds) / seconds, now.rss_mb));
  size_t name_width = 5;
  const auto name_of = [](const StageReport& stage) {
    return stage.copies > 1 ? fmt::format("{} x{}", stage.name, stage.copies) : stage.name;
  };
  for (const StageReport& stage : now.stages) name_width = std::max(name_width, name_of(stage).size());
  // Name, two bars with their percentages, and the queue.
  const size_t fixed = 2 + name_width + 2 * (2 + 5) + 2 + 8;
  const size_t bar_width = std::clamp<size_t>(width > fixed ? (width - fixed) / 2 : 0, 4, 24);
  all.push_back(fmt::format("  {:<{}}  {:<{}}  {:<{}}  {:>7}", "stage", name_width, "busy", bar_width + 5, "waiting",
                            bar_width + 5, "queue"));
  for (size_t i = 0; i < now.stages.size(); ++i) {
    const StageReport& stage = now.stages[i];
    const StageReport earlier = i < before.stages.size() ? before.stages[i] : StageReport();
    const double wall = seconds * stage.copies;
    const double busy = (stage.busy_seconds - earlier.busy_seconds) / (stage.parallel ? seconds * threads : wall);
    const double waited = stage.waiting_for_input_seconds - earlier.waiting_for_input_seconds +
                          stage.waiting_for_output_seconds - earlier.waiting_for_output_seconds;
    const double waiting = waited / wall;
    const auto percent = [](double share) { return fmt::format("{:>4.0f}%", 100 * std::clamp(share, 0.0, 9.99)); };
    all.push_back(fmt::format("  {:<{}}  {}{}  {}{}  {:>3}/{:<3}", name_of(stage), name_width,
                              bar(busy, bar_width, unicode), percent(busy), bar(waiting, bar_width, unicode),
                              percent(waiting), stage.queue, stage.queue_slots));
  }
  const Statistics statistics = {.stages = now.stages,
                                 .wall_seconds = wall_seconds,
                                 .consumer_waiting_seconds = now.consumer_waiting_seconds,
                                 .threads = threads};
  all.push_back("  limited by " + bottleneck_text(statistics));
  for (std::string& line : all) line = cut(line, width);
  return all;
}

LiveDisplay::LiveDisplay(bool wanted)
    : terminal_(wanted && ::isatty(STDERR_FILENO) == 1), unicode_(terminal_takes_unicode()) {}

LiveDisplay::~LiveDisplay() {
  if (drawn_.empty()) return;
  winsize size = {};
  ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
  std::string text;
  erase(size.ws_col, text);
  fmt::print(stderr, "{}", text);
  std::fflush(stderr);
}

// A terminal that has become narrower has broken lines that were drawn.
void LiveDisplay::erase(size_t columns, std::string& text) {
  size_t rows = 0;
  for (const size_t line : drawn_) rows += columns == 0 ? 1 : std::max<size_t>(1, (line + columns - 1) / columns);
  if (rows > 0) text += fmt::format("\x1b[{}A\r\x1b[J", rows);
  drawn_.clear();
}

void LiveDisplay::draw(DisplayedRun run) {
  if (!terminal_) return;
  winsize size = {};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && size.ws_row > 1;
  const size_t columns = known ? size.ws_col - 1U : 79;
  run.unicode = unicode_;
  std::vector<std::string> lines = run.lines(columns);
  // The cursor stands in the line below.
  const size_t rows = known ? size.ws_row - 1U : 23;
  if (lines.size() > rows) {
    // What limits it is worth more than one stage more.
    if (rows > 2) lines[rows - 1] = lines.back();
    lines.resize(rows);
  }
  std::string text;
  erase(known ? size.ws_col : 0, text);
  for (const std::string& line : lines) {
    text += line + "\n";
    drawn_.push_back(columns_of(line));
  }
  fmt::print(stderr, "{}", text);
  std::fflush(stderr);
  redraw_at_ = Clock::now() + kRedrawInterval;
}

}  // namespace millrace

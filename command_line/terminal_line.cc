#include "millrace/command_line/terminal_line.h"

#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace millrace {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr const char* kClearLine = "\r\x1b[K";

size_t columns() {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return std::string::npos;
  return size.ws_col - 1U;
}

}  // namespace

TerminalLine::TerminalLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

TerminalLine::~TerminalLine() {
  if (drawn_) fmt::print(stderr, "{}", kClearLine);
}

void TerminalLine::show(const std::string& text) {
  if (!terminal_) return;
  fmt::print(stderr, "{}{}", kClearLine, text.substr(0, columns()));
  std::fflush(stderr);
  drawn_ = true;
  redraw_at_ = Clock::now() + kRedrawInterval;
}

}  // namespace millrace

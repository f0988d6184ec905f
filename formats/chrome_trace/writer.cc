#include "millrace/formats/chrome_trace/writer.h"

#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr int kProcess = 1;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

double microseconds(int64_t ns) { return 1e-3 * static_cast<double>(ns); }

}  // namespace

void ChromeTraceWriter::begin_event() { text_ += std::exchange(first_, false) ? "[\n" : ",\n"; }

void ChromeTraceWriter::process_name(std::string_view name) {
  begin_event();
  fmt::format_to(std::back_inserter(text_),
                 R"({{"name":"process_name","ph":"M","pid":{},"tid":0,"args":{{"name":{}}}}})", kProcess, quoted(name));
}

void ChromeTraceWriter::row_name(uint64_t row, std::string_view name) {
  begin_event();
  fmt::format_to(std::back_inserter(text_),
                 R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", kProcess, row,
                 quoted(name));
}

void ChromeTraceWriter::span(uint64_t row, std::string_view name, int64_t begin_ns, int64_t duration_ns) {
  begin_event();
  fmt::format_to(std::back_inserter(text_), R"({{"name":{},"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
                 quoted(name), kProcess, row, microseconds(begin_ns), microseconds(duration_ns));
}

void ChromeTraceWriter::counter(uint64_t row, std::string_view name, int64_t at_ns, std::string_view what,
                                int64_t value) {
  begin_event();
  fmt::format_to(std::back_inserter(text_), R"({{"name":{},"ph":"C","pid":{},"tid":{},"ts":{:.3f},"args":{{{}:{}}}}})",
                 quoted(name), kProcess, row, microseconds(at_ns), quoted(what), value);
}

void ChromeTraceWriter::note(std::string_view name, std::string_view what, uint64_t value) {
  begin_event();
  fmt::format_to(std::back_inserter(text_),
                 R"({{"name":{},"ph":"i","s":"g","pid":{},"tid":0,"ts":0,"args":{{{}:{}}}}})", quoted(name), kProcess,
                 quoted(what), value);
}

void ChromeTraceWriter::end() { text_ += first_ ? "[]\n" : "\n]\n"; }

std::string ChromeTraceWriter::take() { return std::exchange(text_, {}); }

}  // namespace millrace

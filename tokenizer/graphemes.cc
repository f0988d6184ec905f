#include "millrace/tokenizer/graphemes.h"

#include <cstdint>
#include <memory>
#include <string>

#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

void require_success(UErrorCode status) {
  if (U_FAILURE(status)) {
    throw ErrorException(ErrorCode::kInvalidArgument, std::string("no graphemes: ") + u_errorName(status));
  }
}

// ICU's iterator over one piece of text after the other.
class GraphemeIterator {
 public:
  GraphemeIterator() {
    UErrorCode status = U_ZERO_ERROR;
    iterator_.reset(ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &status));
    require_success(status);
  }
  ~GraphemeIterator() { utext_close(&bytes_); }
  GraphemeIterator(const GraphemeIterator&) = delete;
  GraphemeIterator& operator=(const GraphemeIterator&) = delete;

  void begin(std::string_view text) {
    UErrorCode status = U_ZERO_ERROR;
    utext_openUTF8(&bytes_, text.data(), static_cast<int64_t>(text.size()), &status);
    ubrk_setUText(iterator_.get(), &bytes_, &status);
    require_success(status);
    ubrk_first(iterator_.get());
  }
  // The end of the next one, or a negative number.
  int32_t next_end() { return ubrk_next(iterator_.get()); }

 private:
  struct Close {
    void operator()(UBreakIterator* iterator) const { ubrk_close(iterator); }
  };

  UText bytes_ = UTEXT_INITIALIZER;
  std::unique_ptr<UBreakIterator, Close> iterator_;
};

}  // namespace

void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& take) {
  const auto is_ascii = [&](size_t at) { return static_cast<uint8_t>(text[at]) < 0x80; };
  for (size_t begin = 0; begin < text.size();) {
    const size_t next = begin + 1;
    const bool line_end = text[begin] == '\r' && next < text.size() && text[next] == '\n';
    if (is_ascii(begin) && !line_end && (next == text.size() || is_ascii(next))) {
      take(text.substr(begin, 1));
      begin = next;
      continue;
    }
    // One character of ASCII, the others up to the next two of ASCII, and the first of those.
    size_t end = next;
    while (end < text.size() && !(is_ascii(end) && (end + 1 == text.size() || is_ascii(end + 1)) &&
                                  !(text[end] == '\r' || text[end] == '\n'))) {
      ++end;
    }
    if (end < text.size()) ++end;
    static thread_local GraphemeIterator iterator;
    iterator.begin(text.substr(begin, end - begin));
    size_t done = 0;
    for (int32_t next_end = iterator.next_end(); next_end >= 0; next_end = iterator.next_end()) {
      take(text.substr(begin + done, static_cast<size_t>(next_end) - done));
      done = static_cast<size_t>(next_end);
    }
    begin = end;
  }
}

}  // namespace millrace

#pragma once

#include <array>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string_view>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

// Calls of libjpeg and libpng, whose error functions must not return. They leave by longjmp: an exception would have to
// pass through frames of C, which need have no unwind tables (and of assembly). So between `run` and the error there is
// nothing that has a destructor.
class LibraryCalls {
 public:
  // `calls` makes no objects with destructors, neither do the functions that the library calls back. Throws what `fail`
  // was told, and std::bad_alloc after `fail_for_memory`.
  template <typename Calls>
  void run(const Calls& calls) {
    if (!succeeds(calls)) throw_failure();
  }

  // In functions that the library calls back.
  [[noreturn]] void fail(ErrorCode code, std::string_view message) {
    code_ = code;
    const size_t size = message.size() < message_.size() ? message.size() : message_.size();
    std::memcpy(message_.data(), message.data(), size);
    message_size_ = size;
    std::longjmp(jump_, 1);
  }
  template <typename... Values>
  [[noreturn]] void fail_with(ErrorCode code, fmt::format_string<const Values&...> form, const Values&... values) {
    std::array<char, kMostMessage> text;
    const auto end = fmt::format_to_n(text.data(), text.size(), form, values...).out;
    fail(code, {text.data(), static_cast<size_t>(end - text.data())});
  }
  [[noreturn]] void fail_for_memory() { fail(ErrorCode::kOutOfMemory, {}); }

 private:
  static constexpr size_t kMostMessage = 300;

  template <typename Calls>
  bool succeeds(const Calls& calls) {
    if (setjmp(jump_) != 0) return false;
    calls();
    return true;
  }
  [[noreturn]] void throw_failure() const {
    if (code_ == ErrorCode::kOutOfMemory) throw std::bad_alloc();
    throw ErrorException(code_, std::string(message_.data(), message_size_));
  }

  std::jmp_buf jump_{};
  ErrorCode code_ = ErrorCode::kParse;
  std::array<char, kMostMessage> message_{};
  size_t message_size_ = 0;
};

}  // namespace millrace

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// Bytes of the original text that a byte of a changed text stands for.
struct ByteSpan {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// A character of a changed text, and what it stands for.
struct CharacterChange {
  char32_t character = 0;
  /// 0: the next character of the text before. Above 0: it is new, and stands where the one before it does. -n: the
  /// next character, after which n are dropped.
  int32_t change = 0;
};

/// A text on its way through normalizers and pre-tokenizers, which for each of its bytes knows the character of the
/// original text that it comes from; without tracking it is the text alone, which is cheaper. Texts are built by
/// appending. One thread at a time; `clear` keeps the memory.
class AlignedText {
 public:
  /// An empty text, with or without tracking.
  void clear(bool tracking);
  /// An empty text without the memory that is more than a thread should keep (`free_large`).
  void clear_and_free_large();
  /// A piece of the original, which begins there at byte `origin`.
  void append_original(std::string_view bytes, uint32_t origin);
  /// A piece of another text with the same tracking, unchanged.
  void append(const AlignedText& source, size_t begin, size_t end);
  /// New bytes that stand where `source` has its byte `at`: what the Python package gives characters that it inserts or
  /// puts in another one's place.
  void append_new(std::string_view bytes, const AlignedText& source, size_t at);
  /// New bytes in front of all of `source`, which is not empty.
  void append_new_before(std::string_view bytes, const AlignedText& source);
  /// The characters of `changes`, which together use the characters of `source` from byte `begin` on.
  void append_changed(std::span<const CharacterChange> changes, const AlignedText& source, size_t begin = 0);
  /// For each byte of a piece of `source` the character that stands for it (`byte_characters`).
  void append_byte_characters(const AlignedText& source, size_t begin, size_t end);
  /// Puts small letters in the place of capital ones. The text is ASCII.
  void lower_ascii();

  std::string_view text() const { return text_; }
  bool tracking() const { return tracking_; }
  /// The bytes of the original that [begin, end), not empty, stands for. Needs tracking.
  ByteSpan original(size_t begin, size_t end) const { return {origins_[begin].begin, origins_[end - 1].end}; }

 private:
  std::string text_;
  std::vector<ByteSpan> origins_;  // one for each byte of text_ when tracking
  bool tracking_ = false;
};

/// An aligned text that is cut into words, the units that the model encodes one by one. Words follow each other without
/// gaps; empty ones do not exist.
struct WordedText {
  AlignedText text;
  std::vector<uint32_t> word_ends;
};

}  // namespace millrace

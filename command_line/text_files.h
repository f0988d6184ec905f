#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace millrace {

/// What happens to bytes of a text that are not UTF-8.
enum class InvalidUtf8 {
  kRefuse,   ///< an error with file and byte offset
  kReplace,  ///< U+FFFD in place of each maximal ill-formed sequence, as Unicode recommends and Python does
};

struct TextFilesOptions {
  /// Read one after the other; gzip files are recognised by their content.
  std::vector<std::string> files = {};
  InvalidUtf8 invalid_utf8 = InvalidUtf8::kRefuse;  ///< Default: kRefuse
  /// With which the program would replace such bytes, for errors: `--invalid-utf8=replace`. Default: empty, it has none
  std::string replacing_option = {};
  /// Asked ten times a second while a pipe has nothing to read, on the thread that calls `next`; true: the text ends
  /// there. Default: none, waits
  std::function<bool()> stop_requested = {};
};

/// What was read so far, and what was changed on the way.
struct TextFilesReport {
  int64_t files = 0;               ///< opened
  int64_t source_bytes = 0;        ///< read, after unpacking
  int64_t source_lines = 0;        ///< read
  int64_t replaced_sequences = 0;  ///< ill-formed sequences that became U+FFFD
  bool operator==(const TextFilesReport&) const = default;
};

/// The lines of the text files that a program is given, as they stand, blank ones as empty lines, without their ends
/// (`\n` or `\r\n`) and without a byte order mark at the beginning of a file. One thread at a time.
///
///     TextFiles files({.files = {"wiki.txt.gz"}});
///     for (std::string line; files.next(line);) count_words(line);
class TextFiles {
 public:
  /// Throws `kIo` when a file is not there or cannot be read, also the last of several.
  explicit TextFiles(TextFilesOptions options);
  ~TextFiles();
  TextFiles(const TextFiles&) = delete;
  TextFiles& operator=(const TextFiles&) = delete;

  /// The next line, in valid UTF-8; false when there is none. Throws `kIo`; `kParse` with file and byte offset for
  /// bytes that are not UTF-8; `kCompression` and `kTruncated` for damaged gzip files.
  bool next(std::string& line);

  const TextFilesReport& report() const { return report_; }
  /// How much of the files has been read, from 0 to 1, for progress lines.
  double fraction_read() const;

 private:
  class LineReader;
  void make_valid(std::string& line);

  const TextFilesOptions options_;
  int64_t total_bytes_ = 0;
  int64_t bytes_of_past_files_ = 0;
  size_t next_file_ = 0;
  std::unique_ptr<LineReader> reader_;
  TextFilesReport report_;
};

}  // namespace millrace

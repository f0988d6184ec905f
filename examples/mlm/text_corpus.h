#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/command_line/text_files.h"

namespace millrace {

/// The default corpus: dict-gcide, a dictionary of English with 40 MB of prose, from the Debian package of that name.
inline constexpr const char* kDefaultCorpus = "/usr/share/dictd/gcide.dict.dz";

struct CorpusOptions {
  /// Text files, read one after the other; gzip files are recognised by their content. Empty: the default corpus.
  std::vector<std::string> files;
  /// In their place the descriptions in a list of Debian's packages (PackageReader): synopses and paragraphs, each text
  /// once, a line each. Empty: none.
  std::string packages = {};
  /// For `files`; in the default corpus such bytes are always replaced. Default: refuse.
  InvalidUtf8 invalid_utf8 = InvalidUtf8::kRefuse;
  /// Asked ten times a second while a pipe has nothing to read, on the thread that calls `next`; true: the text ends
  /// there. Default: none, waits
  std::function<bool()> stop_requested = {};
};

/// What was read so far, and what was changed on the way.
struct CorpusReport {
  int64_t files = 0;               ///< opened
  int64_t source_bytes = 0;        ///< read, after unpacking
  int64_t source_lines = 0;        ///< read
  int64_t lines = 0;               ///< delivered
  int64_t bytes = 0;               ///< delivered, without line ends
  int64_t replaced_sequences = 0;  ///< ill-formed sequences that became U+FFFD
  int64_t joined_lines = 0;        ///< of the default corpus: lines that continue a paragraph
  int64_t repeated_texts = 0;      ///< of packages: texts that had come before
  int64_t collapsed_spaces = 0;    ///< of the default corpus: white space left out, beside the lines' ends
  bool operator==(const CorpusReport&) const = default;
};

/// One line for people: what was read, and what was changed.
[[nodiscard]] std::string to_text(const CorpusReport& report);

/// The lines of a text, one after the other, the same on every run.
///
/// Of `files`, every line comes as it stands, blank ones as empty lines, without its end (`\n` or `\r\n`) and without a
/// byte order mark at the beginning of a file. The default corpus is cleaned: lines between blank lines are one
/// paragraph and come as one line, runs of white space as one space, bytes that are not UTF-8 as U+FFFD.
///
///     TextCorpus corpus({.files = {"wiki.txt"}});
///     for (std::string line; corpus.next(line);) count_words(line);
///     std::cerr << to_text(corpus.report()) << "\n";
///
/// One thread at a time.
class TextCorpus {
 public:
  /// Throws `kIo` when a file is not there or cannot be read, also the last of several.
  explicit TextCorpus(CorpusOptions options);
  ~TextCorpus();
  TextCorpus(const TextCorpus&) = delete;
  TextCorpus& operator=(const TextCorpus&) = delete;

  /// The next line, in valid UTF-8; false when there is none. Throws `kIo`; `kParse` with file and byte offset for
  /// bytes that are not UTF-8; `kCompression` and `kTruncated` for damaged gzip files.
  bool next(std::string& line);

  const CorpusReport& report() const;
  /// How much of the files has been read, from 0 to 1, for progress lines.
  double fraction_read() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace

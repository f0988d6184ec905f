#include "examples/mlm/text_corpus.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "examples/packages/package_list.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

void take_spaces(std::string_view& text) {
  while (!text.empty() && is_space(text[0])) text.remove_prefix(1);
}

std::string_view take_word(std::string_view& text) {
  const auto end = std::find_if(text.begin(), text.end(), is_space);
  const std::string_view word(text.begin(), end);
  text.remove_prefix(word.size());
  return word;
}

}  // namespace

struct TextCorpus::State {
  explicit State(CorpusOptions given)
      : options(std::move(given)), is_default(options.files.empty() && options.packages.empty()) {
    if (!options.packages.empty()) {
      if (!options.files.empty()) {
        throw ErrorException(ErrorCode::kInvalidArgument, "--text and --packages are two texts; give one");
      }
      options.files = {options.packages};
    }
    if (is_default) {
      options.files = {kDefaultCorpus};
      options.invalid_utf8 = InvalidUtf8::kReplace;
      if (::access(kDefaultCorpus, F_OK) != 0) {
        throw ErrorException(ErrorCode::kIo,
                             fmt::format("the default corpus '{}' is not there: install the Debian package dict-gcide, "
                                         "or name text files with --text",
                                         kDefaultCorpus));
      }
    }
    files.emplace(TextFilesOptions{.files = options.files,
                                   .invalid_utf8 = options.invalid_utf8,
                                   .replacing_option = "--invalid-utf8=replace",
                                   .stop_requested = options.stop_requested});
    if (!options.packages.empty()) {
      packages.emplace([this](std::string& line) { return next_source_line(line); }, options.packages);
    }
  }

  // The next line as it stands in the files, in valid UTF-8.
  bool next_source_line(std::string& line) {
    const bool found = files->next(line);
    const TextFilesReport& read = files->report();
    report.files = read.files;
    report.source_bytes = read.source_bytes;
    report.source_lines = read.source_lines;
    report.replaced_sequences = read.replaced_sequences;
    return found;
  }

  // The next paragraph of the default corpus.
  bool next_paragraph(std::string& paragraph) {
    paragraph.clear();
    while (next_source_line(source_line)) {
      const size_t size_before = paragraph.size();
      int64_t num_words = 0;
      for (std::string_view rest = source_line; take_spaces(rest), !rest.empty();) {
        const std::string_view word = take_word(rest);
        if (!paragraph.empty()) paragraph.push_back(' ');
        paragraph.append(word);
        ++num_words;
      }
      // The space between two lines stands for the line's end.
      const bool joined = size_before > 0 && num_words > 0;
      report.joined_lines += joined ? 1 : 0;
      report.collapsed_spaces +=
          static_cast<int64_t>(source_line.size() + (joined ? 1 : 0) + size_before - paragraph.size());
      if (num_words == 0 && !paragraph.empty()) break;
    }
    return !paragraph.empty();
  }

  // The next text of the descriptions of packages that has not come before.
  bool next_description(std::string& text) {
    while (true) {
      if (next_text > package.paragraphs.size()) {
        if (!packages->next(package)) return false;
        next_text = 0;
      }
      const std::string& next = next_text == 0 ? package.synopsis : package.paragraphs[next_text - 1];
      ++next_text;
      if (!next.empty() && seen.insert(next).second) {
        text = next;
        return true;
      }
      ++report.repeated_texts;
    }
  }

  CorpusOptions options;
  bool is_default;
  std::optional<PackageReader> packages;
  Package package;
  size_t next_text = 1;  // of its synopsis and paragraphs
  std::unordered_set<std::string> seen;
  std::optional<TextFiles> files;
  std::string source_line;
  CorpusReport report;
};

TextCorpus::TextCorpus(CorpusOptions options) : state_(std::make_unique<State>(std::move(options))) {}
TextCorpus::~TextCorpus() = default;

bool TextCorpus::next(std::string& line) {
  const bool found = state_->packages     ? state_->next_description(line)
                     : state_->is_default ? state_->next_paragraph(line)
                                          : state_->next_source_line(line);
  if (!found) return false;
  ++state_->report.lines;
  state_->report.bytes += static_cast<int64_t>(line.size());
  return true;
}

const CorpusReport& TextCorpus::report() const { return state_->report; }

double TextCorpus::fraction_read() const { return state_->files->fraction_read(); }

std::string to_text(const CorpusReport& report) {
  std::string text = fmt::format("{} lines with {} bytes of text from {} file{}", report.lines, report.bytes,
                                 report.files, report.files == 1 ? "" : "s");
  if (report.joined_lines > 0) text += fmt::format(", {} wrapped lines joined", report.joined_lines);
  if (report.repeated_texts > 0) text += fmt::format(", {} that had come before left out", report.repeated_texts);
  if (report.collapsed_spaces > 0) text += fmt::format(", {} surplus spaces left out", report.collapsed_spaces);
  if (report.replaced_sequences > 0) {
    text += fmt::format(", {} sequences that are not UTF-8 replaced by U+FFFD", report.replaced_sequences);
  }
  return text;
}

}  // namespace millrace

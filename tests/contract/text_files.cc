#include "tests/contract/text_files.h"

#include <fmt/format.h>

#include "tests/support/packed.h"

namespace millrace::test {
namespace {

ModelElement record(const std::string& text) {
  ModelElement element;
  element.values = {bytes({}, {text})};
  return element;
}

ModelElement failed(ErrorCode code) {
  ModelElement element;
  element.fail(code);
  return element;
}

}  // namespace

const TextFiles& TextFiles::get() {
  static const TextFiles files;
  return files;
}

TextFiles::TextFiles() {
  for (int64_t f = 0; f < 4; ++f) {
    const int64_t count = f == 1 ? 0 : f == 2 ? kMany : 11 + 3 * f;
    std::string lines;
    std::vector<ModelElement> elements;
    for (int64_t i = 0; i < count; ++i) {
      // Empty lines among them, and ends in the middle, which no line has in the end.
      const std::string text(static_cast<size_t>(i * 5 % 9), static_cast<char>('a' + i % 26));
      elements.push_back(record(text));
      lines += text.substr(0, text.size() / 2) + (i % 7 == 3 ? "\r" : "") + text.substr(text.size() / 2);
      const bool last_is_open = f == 0 && i + 1 == count && !text.empty();
      if (!last_is_open) lines += i % 3 == 1 ? "\r\n" : "\n";
    }
    if (f == 3) {
      lines += std::string(kMostBytes + 1, 'x') + "\nlost\n";
      elements.push_back(failed(ErrorCode::kRecordTooLarge));
    }
    write(fmt::format("lines-{}", f), lines, elements);

    std::string words(kWords.header_bytes, 'h');
    elements.clear();
    for (int64_t i = 0; i < count; ++i) {
      elements.push_back(record(fmt::format("w{:06}", i * 37 + f)));
      words += elements.back().values[0].bytes[0];
    }
    words += std::string(kWords.footer_bytes, 'f');
    if (f == 3) {
      words += "too";
      elements.push_back(failed(ErrorCode::kTruncated));
    }
    write(fmt::format("words-{}", f), words, elements);
  }
}

void TextFiles::write(const std::string& name, const std::string& content, const std::vector<ModelElement>& elements) {
  records_[name] = elements;
  for (const Compression compression : {Compression::kNone, Compression::kZlib, Compression::kGzip}) {
    write_file(path(name, compression), packed(content, compression));
  }
}

std::string TextFiles::path(const std::string& name, Compression compression) const {
  return folder_.path(fmt::format("{}.{}", name, to_string(compression)));
}

Shards TextFiles::shards(const std::vector<std::string>& names, Compression compression) const {
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(path(name, compression));
  return Shards::files(std::move(paths));
}

Model TextFiles::records(const std::string& name, Compression compression) const {
  std::vector<ModelElement> elements = records_.at(name);
  // The size of a plain file is seen before anything is read.
  const bool seen_first = name == "words-3" && compression == Compression::kNone;
  if (seen_first) elements = {elements.back()};
  return model_of_elements(std::move(elements));
}

}  // namespace millrace::test

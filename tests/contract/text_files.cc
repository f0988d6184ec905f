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

// A record of a table with the error that parsing it comes to.
ModelElement unparsable(ErrorCode code) {
  ModelElement element;
  element.values = {integers({}, {static_cast<int64_t>(code)})};
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
      after_damage_["lines-3"] = {record("lost")};
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
    write_table(f, count);
  }
}

std::vector<CsvColumn> TextFiles::columns() {
  return {{.name = "id", .dtype = DType::kInt64},
          {.name = "score", .dtype = DType::kFloat32, .default_value = 0.5},
          {.name = "word", .default_value = "none"}};
}

CsvFormat TextFiles::table() {
  CsvFormat format;
  format.delimiter = ';';
  format.header = true;
  format.missing = "NA";
  format.select_columns = {1, 2, 4};
  return format;
}

void TextFiles::write_table(int64_t number, int64_t count) {
  std::string table = "x;id;\"sc\nore\";y;word\n";
  std::vector<ModelElement> elements;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = i * 13 - 50;
    std::string word(static_cast<size_t>(i * 3 % 7), static_cast<char>('a' + i % 26));
    std::string field = word;
    if (i % 4 == 1) {
      word += "\";\r\n" + word;
      field = fmt::format("\"{0}\"\";\r\n{0}\"", field);
    }
    ModelElement& element = elements.emplace_back();
    element.values = {integers({}, {id}), floats({}, {i % 5 == 2 ? 0.5F : static_cast<float>(i) / 8}),
                      bytes({}, {word.empty() ? "none" : word})};
    const std::string score = i % 5 != 2 ? fmt::format("{}", static_cast<float>(i) / 8) : i % 2 == 0 ? "NA" : "";
    std::string row = fmt::format(";{};{};\"y\";{}", id, score, field);
    const int64_t bad = number == 3 ? i % 8 : -1;
    if (bad == 2) row = fmt::format(";{}x;{};;{}", id, score, field);
    if (bad == 4) row = fmt::format(";;{};;{}", score, field);
    if (bad == 6) row = ";1;2";
    if (bad == 7) row += "q\"";
    if (bad == 2 || bad == 6 || bad == 7) element = unparsable(ErrorCode::kParse);
    if (bad == 4) element = unparsable(ErrorCode::kMissingFeature);
    table += row + (i % 3 == 1 ? "\r\n" : "\n");
  }
  if (number == 3) {
    table += "x;1;2;y;\"open\n";
    elements.push_back(unparsable(ErrorCode::kParse));
  }
  write(fmt::format("table-{}", number), table, elements);
}

void TextFiles::write(const std::string& name, const std::string& content, const std::vector<ModelElement>& elements) {
  records_[name] = elements;
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kZstd}) {
    write_file(path(name, compression), packed(content, compression));
  }
}

std::string TextFiles::path(const std::string& name, Compression compression) const {
  return folder_.path(fmt::format("{}.{}", name, to_string(compression)));
}

Shards TextFiles::shards(const std::vector<std::string>& names, Compression compression) const {
  std::vector<std::string> paths;
  paths.reserve(names.size());
  for (const std::string& name : names) paths.push_back(path(name, compression));
  return Shards::files(std::move(paths));
}

Model TextFiles::parsed(Model records) {
  return model_of_map(std::move(records), [](ModelElement& element, int64_t) {
    if (element.values.size() == 1) element.fail(static_cast<ErrorCode>(element.values[0].integers[0]));
  });
}

Model TextFiles::whole(const std::string& name, bool labelled) const {
  const std::string file = path(name, Compression::kNone);
  const std::string content = read_file(file);
  if (content.size() > kMostFileBytes) return model_of_elements({failed(ErrorCode::kRecordTooLarge)});
  ModelElement element = record(content);
  element.values.push_back(bytes({}, {file}));
  if (labelled) element.values.push_back(integers({}, {0}));
  return model_of_elements({std::move(element)});
}

Model TextFiles::records(const std::string& name, Compression compression, bool passes_damage) const {
  std::vector<ModelElement> elements = records_.at(name);
  // The size of a plain file is seen before anything is read.
  const bool seen_first = name == "words-3" && compression == Compression::kNone && !passes_damage;
  if (seen_first) elements = {elements.back()};
  const auto after = after_damage_.find(name);
  if (passes_damage && after != after_damage_.end()) {
    elements.insert(elements.end(), after->second.begin(), after->second.end());
  }
  return model_of_elements(std::move(elements));
}

}  // namespace millrace::test

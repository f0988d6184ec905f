#include "examples/quest/quest_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <re2/re2.h>

#include "examples/csv/blank_text.h"
#include "examples/csv/csv_table.h"
#include "millrace/command_line/given_options.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

// The columns whose names match the pattern of a head; the others are no targets.
std::map<size_t, Head> heads_of(const CsvTable& table, const HeadPatterns& patterns) {
  std::map<size_t, Head> heads;
  for (size_t head = 0; head < patterns.size(); ++head) {
    if (patterns[head].empty()) continue;
    const RE2 pattern(patterns[head], RE2::Quiet);
    const std::string option = fmt::format("--{}-targets '{}'", kHeadNames[head], patterns[head]);
    require(pattern.ok(), fmt::format("{} is no regular expression: {}", option, pattern.error()));
    bool matched = false;
    for (size_t i = 0; i < table.names().size(); ++i) {
      const std::string& name = table.names()[i];
      if (!RE2::FullMatch(name, pattern)) continue;
      matched = heads.emplace(i, static_cast<Head>(head)).second;
      require(matched, fmt::format("{}: column '{}' is a target of two heads", table.path(), name));
    }
    require(matched, fmt::format("{}: {} matches no column", table.path(), option));
  }
  require(!heads.empty(), table.path() + ": no head has a target");
  return heads;
}

std::string text_of(const CsvRow& row, size_t column) {
  std::string text = row.text(column);
  if (is_blank(text)) row.refuse(column, "an empty text");
  return text;
}

float label_of(const CsvRow& row, size_t column) {
  const std::string text = row.text(column);
  const auto number = parse_csv_number(text, DType::kFloat32);
  if (!number) row.refuse(column, fmt::format("'{}' is no number", excerpt(text)));
  const float label = std::get<float>(*number);
  if (!(label >= 0 && label <= 1)) row.refuse(column, fmt::format("{} is outside [0, 1]", text));
  return label;
}

}  // namespace

QuestRows read_csv_rows(const std::string& path, const std::optional<HeadPatterns>& heads) {
  const CsvTable table(path);
  QuestRows result;
  const std::map<size_t, Head> labels = heads ? heads_of(table, *heads) : std::map<size_t, Head>();
  for (const auto& [column, head] : labels) result.targets.push_back({.name = table.names()[column], .head = head});
  const std::optional<size_t> id = heads ? table.find("qa_id") : table.column("qa_id");
  const size_t title = table.column("question_title");
  const size_t body = table.column("question_body");
  const size_t answer = table.column("answer");
  table.for_each([&](const CsvRow& row) {
    QuestRow read{.title = text_of(row, title), .body = text_of(row, body), .answer = text_of(row, answer)};
    read.id = id ? text_of(row, *id) : std::to_string(result.rows.size());
    read.keys = {read.body};
    for (const auto& [column, head] : labels) read.labels.push_back(label_of(row, column));
    result.rows.push_back(std::move(read));
  });
  require(!result.rows.empty(), path + ": no rows after the header");
  return result;
}

QuestRows rows_of_packages(const std::vector<Package>& packages, const std::vector<std::string>& tags) {
  QuestRows result;
  for (size_t i = 0; i < tags.size(); ++i) {
    const size_t place = i * 30 / tags.size();
    const Head head = place < 21 ? Head::kQuestion : place < 26 ? Head::kAnswer : Head::kJoint;
    result.targets.push_back({.name = tags[i], .head = head});
  }
  for (const Package& package : packages) {
    QuestRow& row = result.rows.emplace_back(QuestRow{
        .id = package.name, .title = package.synopsis, .body = package.paragraphs[0], .answer = package.answer()});
    row.keys = {package.source, row.body, row.answer};
    for (const std::string& tag : tags) row.labels.push_back(std::ranges::count(package.tags, tag) > 0 ? 1.0F : 0.0F);
  }
  return result;
}

}  // namespace millrace

#include "examples/quest/quest_rows.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <re2/re2.h>

#include "examples/csv/blank_text.h"
#include "examples/csv/csv_table.h"
#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

// For each column the head whose pattern its name matches; the others are no targets.
std::vector<std::optional<Head>> heads_of(const CsvTable& table, const HeadPatterns& patterns) {
  const std::vector<std::string>& names = table.names();
  std::vector<std::optional<Head>> heads(names.size());
  for (size_t head = 0; head < patterns.size(); ++head) {
    if (patterns[head].empty()) continue;
    const RE2 pattern(patterns[head], RE2::Quiet);
    const std::string option = fmt::format("--{}-targets '{}'", kHeadNames[head], patterns[head]);
    if (!pattern.ok()) refuse(fmt::format("{} is no regular expression: {}", option, pattern.error()));
    bool matched = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!RE2::FullMatch(names[i], pattern)) continue;
      if (heads[i]) refuse(fmt::format("{}: column '{}' is a target of two heads", table.path(), names[i]));
      heads[i] = static_cast<Head>(head);
      matched = true;
    }
    if (!matched) refuse(fmt::format("{}: {} matches no column", table.path(), option));
  }
  if (std::ranges::none_of(heads, &std::optional<Head>::has_value)) refuse(table.path() + ": no head has a target");
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
  std::vector<size_t> label_columns;
  if (heads) {
    const std::vector<std::optional<Head>> head_of = heads_of(table, *heads);
    for (size_t i = 0; i < head_of.size(); ++i) {
      if (!head_of[i]) continue;
      result.targets.push_back({.name = table.names()[i], .head = *head_of[i]});
      label_columns.push_back(i);
    }
  }
  std::vector<std::pair<std::string, size_t>> texts = {{"title", table.column("question_title")},
                                                       {"body", table.column("question_body")},
                                                       {"answer", table.column("answer")}};
  const bool has_ids = !heads || table.find("qa_id");
  if (has_ids) texts.emplace_back("id", table.column("qa_id"));
  std::vector<FeatureSpec> features;
  features.reserve(texts.size() + 1);
  for (const auto& [name, column] : texts) features.push_back({.name = name, .dtype = DType::kBytes, .shape = {}});
  features.push_back({.name = "labels", .dtype = DType::kFloat32, .shape = {kVaries}});
  const auto read = [&](const CsvRow& row, RowWriter& out) {
    for (const auto& [name, column] : texts) out.set(name, text_of(row, column));
    const auto labels = out.make<float>("labels", {{std::ssize(label_columns)}});
    std::ranges::transform(label_columns, labels.begin(), [&](size_t column) { return label_of(row, column); });
  };
  Pipeline pipeline = table.rows(features, read).start({.threads = 1});
  while (const std::optional<Batch> record = pipeline.next()) {
    const auto text = [&](const char* name) { return std::string(record->values<std::string_view>(name)[0]); };
    QuestRow row{.title = text("title"), .body = text("body"), .answer = text("answer")};
    row.id = has_ids ? text("id") : std::to_string(result.rows.size());
    row.keys = {row.body};
    const auto labels = record->values<float>("labels");
    row.labels.assign(labels.begin(), labels.end());
    result.rows.push_back(std::move(row));
  }
  if (result.rows.empty()) refuse(path + ": no rows after the header");
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
    for (const std::string& tag : tags) {
      row.labels.push_back(std::ranges::count(package.tags, tag) > 0 ? 1.0F : 0.0F);
    }
  }
  return result;
}

}  // namespace millrace

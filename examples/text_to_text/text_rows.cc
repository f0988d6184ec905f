#include "examples/text_to_text/text_rows.h"

#include <fmt/format.h>

#include "examples/csv/blank_text.h"
#include "examples/csv/csv_table.h"
#include "examples/html/html_text.h"
#include "millrace/command_line/given_options.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

FeatureSpec bytes(const char* name) { return {.name = name, .dtype = DType::kBytes, .shape = {}}; }

std::string body_of(const CsvRow& row, size_t column, bool html) {
  std::string text = row.text(column);
  if (!html) return text;
  try {
    return html_to_text(text);
  } catch (const ErrorException& error) {
    row.refuse(column, error.error().message);
  }
}

}  // namespace

void TextColumns::add_to(boost::program_options::options_description& options) {
  const auto name = [](std::string& column) { return boost::program_options::value(&column)->default_value(column); };
  // clang-format off
  options.add_options()
      ("id-column", name(id), "column of the CSV that names a row")
      ("title-column", name(title), "column of the title")
      ("body-column", name(body), "column of the body")
      ("class-column", name(label), "column of the class");
  // clang-format on
}

void TextColumns::refuse_in(const boost::program_options::variables_map& given, const std::string& why) {
  refuse_given(given, {"id-column", "title-column", "body-column", "class-column"}, why);
}

Dataset csv_rows(const std::string& path, const TextColumns& columns, const TextTask& task, bool needs_class) {
  const CsvTable table(path);
  const auto label = needs_class || columns.needs_label ? table.column(columns.label) : table.find(columns.label);
  const auto read = [id = table.column(columns.id), title = table.column(columns.title),
                     body = table.column(columns.body), label, task, needs_class](const CsvRow& row, RowWriter& out) {
    const std::string title_text = row.text(title);
    const std::string body_text = body_of(row, body, task.html);
    if (is_blank(title_text) && is_blank(body_text)) row.refuse(body, "there is no text, and no title either");
    int64_t number = kNoClass;
    if (const std::string name = label ? row.text(*label) : ""; needs_class || !name.empty()) {
      const auto found = task.number_of(name);
      if (!found) row.refuse(*label, fmt::format("'{:.60}' is no class", name));
      number = *found;
    }
    out.set("id", row.text(id));
    out.set("group", row.text(id));
    out.set("title", title_text);
    out.set("body", body_text);
    out.set("class", number);
  };
  return table.rows({bytes("id"),
                     bytes("group"),
                     bytes("title"),
                     bytes("body"),
                     {.name = "class", .dtype = DType::kInt64, .shape = {}}},
                    read);
}

Dataset package_rows(const DrawnPackages& drawn, const TextTask& task) {
  std::vector<std::vector<std::string>> texts(4);
  std::vector<int64_t> numbers;
  for (const PackageText& package : drawn.packages) {
    texts[0].push_back(package.name);
    texts[1].push_back(package.group);
    texts[2].push_back(package.synopsis);
    texts[3].push_back(package.description);
    numbers.push_back(task.number_of(package.section).value());
  }
  return Dataset::rows(
      {{"id", texts[0]}, {"group", texts[1]}, {"title", texts[2]}, {"body", texts[3]}, {"class", numbers}});
}

}  // namespace millrace

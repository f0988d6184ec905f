#include "examples/packages/package_list.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/command_line/text_files.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

// Adds the words of a line to a text in which all of them are one space apart.
void append_words(std::string& text, std::string_view line) {
  constexpr std::string_view kSpaces = " \t";
  for (size_t begin = line.find_first_not_of(kSpaces); begin != std::string_view::npos;
       begin = line.find_first_not_of(kSpaces, begin)) {
    const size_t end = std::min(line.find_first_of(kSpaces, begin), line.size());
    if (!text.empty()) text += ' ';
    text += line.substr(begin, end - begin);
    begin = end;
  }
}

std::vector<std::string> split_tags(std::string_view text) {
  std::vector<std::string> tags;
  while (!text.empty()) {
    const size_t end = std::min(text.find(", "), text.size());
    tags.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return tags;
}

}  // namespace

PackageReader::PackageReader(std::function<bool(std::string&)> lines, std::string path)
    : lines_(std::move(lines)), path_(std::move(path)) {}

void PackageReader::refuse(const std::string& what) const {
  const std::string line = num_lines_ == 0 ? "" : fmt::format("line {}: ", num_lines_);
  throw ErrorException(ErrorCode::kParse,
                       fmt::format("{}: {}{}; examples/packages/fetch.sh writes such a list", path_, line, what));
}

bool PackageReader::next(Package& package) {
  package = {};
  bool begun = false;
  bool described = false;
  bool of_paragraph = false;  // the next line goes on with the last paragraph
  while (lines_(line_)) {
    ++num_lines_;
    const std::string_view line = line_;
    if (line.empty()) {
      if (package.name.empty() || package.source.empty() || package.section.empty() || !described) {
        refuse("the end of what is no package: one has Package, Source, Section and Description");
      }
      return true;
    }
    begun = true;
    if (line.starts_with(' ')) {
      if (!described) refuse("a line that goes on with no description");
      if (line == " .") {
        of_paragraph = false;
        continue;
      }
      if (!std::exchange(of_paragraph, true)) package.paragraphs.emplace_back();
      append_words(package.paragraphs.back(), line);
      continue;
    }
    const size_t colon = line.find(": ");
    if (colon == std::string_view::npos) refuse(fmt::format("'{}' is no field of a package", line.substr(0, 60)));
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 2);
    if (name == "Package") {
      package.name = value;
    } else if (name == "Source") {
      package.source = value;
    } else if (name == "Section") {
      package.section = value;
    } else if (name == "Tag") {
      package.tags = split_tags(value);
    } else if (name == "Description") {
      append_words(package.synopsis, value);
      described = true;
    } else {
      refuse(fmt::format("'{}' is no field of a package", name.substr(0, 60)));
    }
  }
  if (begun) refuse("the list is cut off in a package");
  if (num_lines_ == 0) refuse("there is no package in it");
  return false;
}

std::string Package::answer() const {
  return fmt::format("{}", fmt::join(std::span(paragraphs).subspan(std::min<size_t>(1, paragraphs.size())), " "));
}

std::vector<Package> read_packages(const std::string& path) {
  TextFiles lines({.files = {path}});
  PackageReader reader([&](std::string& line) { return lines.next(line); }, path);
  std::vector<Package> packages;
  for (Package package; reader.next(package);) packages.push_back(std::move(package));
  return packages;
}

}  // namespace millrace

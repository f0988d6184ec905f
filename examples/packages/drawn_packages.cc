#include "examples/packages/drawn_packages.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "examples/packages/package_list.h"
#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/text/lower_case.h"
#include "millrace/trainer/run/cross_validation.h"

namespace millrace {
namespace {

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '_' || (c & 0x80) != 0;
}

// Those that have a text of their own.
std::vector<PackageText> read_texts(const std::string& path, int64_t& num_empty, int64_t& num_repeated) {
  std::vector<PackageText> texts;
  std::set<std::string> seen;
  for (const Package& package : read_packages(path)) {
    PackageText text{.name = package.name,
                     .source = package.source,
                     .section = package.section,
                     .synopsis = without_name(package.synopsis, package.name)};
    for (const std::string& paragraph : package.paragraphs) {
      const std::string line = without_name(paragraph, package.name);
      if (!line.empty() && !text.description.empty()) text.description += '\n';
      text.description += line;
    }
    if (text.synopsis.empty() || text.description.empty()) {
      ++num_empty;
    } else if (!seen.insert(text.synopsis + "\n" + text.description).second) {
      ++num_repeated;
    } else {
      texts.push_back(std::move(text));
    }
  }
  return texts;
}

std::vector<std::string> most_frequent(const std::map<std::string, int64_t>& counts, int64_t most) {
  std::vector<std::pair<int64_t, std::string>> order;
  order.reserve(counts.size());
  for (const auto& [section, count] : counts) order.emplace_back(-count, section);
  std::ranges::sort(order);
  order.resize(std::min(order.size(), static_cast<size_t>(most)));
  std::vector<std::string> sections;
  sections.reserve(order.size());
  for (const auto& [count, section] : order) sections.push_back(section);
  return sections;
}

// Those of a section for whose names the lowest numbers are drawn.
std::set<std::string> drawn_names(const std::vector<PackageText>& texts, const std::string& section,
                                  const DrawnPackagesOptions& options) {
  const CounterRng rng(options.seed, operator_id("drawn_packages"));
  std::set<std::pair<uint64_t, std::string>> drawn;
  for (const PackageText& text : texts) {
    if (text.section != section) continue;
    drawn.emplace(rng.bits(operator_id(text.name)), text.name);
    if (std::ssize(drawn) > options.packages_per_section) drawn.erase(std::prev(drawn.end()));
  }
  std::set<std::string> names;
  for (const auto& [number, name] : drawn) names.insert(name);
  return names;
}

// Named by the source of their first package.
void set_groups(std::vector<PackageText>& packages) {
  std::vector<std::vector<std::string>> keys;
  keys.reserve(packages.size());
  for (const PackageText& package : packages)
    keys.push_back({"source " + package.source, "text " + package.description});
  const std::vector<size_t> groups = groups_of(keys);
  std::vector<const std::string*> names;  // groups are numbered by their first packages
  for (size_t i = 0; i < packages.size(); ++i) {
    if (groups[i] == names.size()) names.push_back(&packages[i].source);
    packages[i].group = *names[groups[i]];
  }
}

// The list has them by name, and so those of a section, such as fonts, beside each other; whoever shuffles a part of
// them at a time would see few sections in each.
void set_order(std::vector<PackageText>& packages, uint64_t seed) {
  const CounterRng rng(seed, operator_id("order_of_drawn_packages"));
  std::ranges::sort(packages, {}, [&rng](const PackageText& package) {
    return std::pair(rng.bits(operator_id(package.name)), std::string_view(package.name));
  });
}

}  // namespace

std::string without_name(const std::string& text, const std::string& name) {
  const std::string searched = lower_case(text);
  const std::string wanted = lower_case(name);
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const size_t end = i + wanted.size();
    const bool is_name = searched.compare(i, wanted.size(), wanted) == 0 && (i == 0 || !is_of_word(text[i - 1])) &&
                         (end >= text.size() || !is_of_word(text[end]));
    if (is_name) {
      i = end;
      continue;
    }
    if (text[i] != ' ' || (!result.empty() && result.back() != ' ')) result += text[i];
    ++i;
  }
  result.resize(result.find_last_not_of(' ') + 1);
  return result;
}

DrawnPackages drawn_packages(const DrawnPackagesOptions& options) {
  int64_t num_empty = 0;
  int64_t num_repeated = 0;
  std::vector<PackageText> texts = read_texts(options.path, num_empty, num_repeated);
  std::map<std::string, int64_t> counts;
  for (const PackageText& text : texts) ++counts[text.section];
  DrawnPackages result{.sections = options.sections};
  if (result.sections.empty()) result.sections = most_frequent(counts, options.num_sections);
  std::set<std::string> names;
  int64_t num_of_sections = 0;
  for (const std::string& section : result.sections) {
    if (!counts.contains(section)) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("no package in {} is of section '{}'", options.path, section));
    }
    num_of_sections += counts[section];
    names.merge(drawn_names(texts, section, options));
  }
  const auto num_texts = std::ssize(texts);
  for (PackageText& text : texts) {
    if (names.contains(text.name)) result.packages.push_back(std::move(text));
  }
  set_groups(result.packages);
  set_order(result.packages, options.seed);
  result.left_out = {{"of other sections", num_texts - num_of_sections},
                     {"more than are wanted of a section", num_of_sections - std::ssize(result.packages)},
                     {"with the text of another package", num_repeated},
                     {"without synopsis or description, but for the name", num_empty}};
  return result;
}

}  // namespace millrace

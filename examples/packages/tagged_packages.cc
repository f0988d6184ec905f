#include "examples/packages/tagged_packages.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/random/sample_without_replacement.h"

namespace millrace {
namespace {

using Packages = std::vector<const Package*>;
using Names = std::unordered_set<std::string_view>;

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

std::vector<std::string> most_frequent_tags(const Packages& packages, int64_t num_tags) {
  std::map<std::string, int64_t> counts;
  for (const Package* package : packages) {
    for (const std::string& tag : package->tags) ++counts[tag];
  }
  if (std::ssize(counts) < num_tags) {
    refuse(fmt::format("{} tags are asked for, and the packages have {}", num_tags, counts.size()));
  }
  std::vector<std::string> tags;
  tags.reserve(counts.size());
  for (const auto& [tag, count] : counts) tags.push_back(tag);  // by name
  std::ranges::stable_sort(tags, std::greater(), [&](const std::string& tag) { return counts.at(tag); });
  tags.resize(static_cast<size_t>(num_tags));
  return tags;
}

std::vector<Package> draw(const Packages& packages, int64_t most, const CounterRng& rng) {
  std::vector<uint32_t> words(packages.size());
  for (size_t i = 0; i < words.size(); ++i) words[i] = rng.words(i)[0];
  std::vector<Package> drawn;
  sample_without_replacement(words, packages.size(), std::min(packages.size(), static_cast<size_t>(most)),
                             [&](size_t i) { drawn.push_back(*packages[i]); });
  return drawn;
}

}  // namespace

TaggedPackages choose_tagged_packages(const std::vector<Package>& packages, const TaggedPackagesOptions& options) {
  TaggedPackages result;
  Packages possible;
  for (const Package& package : packages) {
    if (package.tags.empty()) {
      ++result.untagged;
    } else if (package.paragraphs.size() < 2) {
      ++result.without_second_paragraph;
    } else {
      possible.push_back(&package);
    }
  }
  if (possible.empty()) refuse("no package is tagged and has two paragraphs");
  result.tags = most_frequent_tags(possible, options.tags);
  result.rows = draw(possible, options.rows, CounterRng(options.seed, operator_id("tagged_packages")));
  Names sources;
  Names seen;
  const auto add_to_known = [&](const std::vector<Package>& chosen) {
    for (const Package& package : chosen) {
      sources.insert(package.source);
      seen.insert(package.synopsis);
      seen.insert(package.paragraphs.begin(), package.paragraphs.end());
    }
  };
  add_to_known(result.rows);
  const auto num_possible = std::ssize(possible);
  std::unordered_set<std::string> row_texts;
  for (const Package& row : result.rows) row_texts.insert({row.paragraphs[0], row.answer()});
  std::erase_if(possible, [&](const Package* package) {
    return sources.contains(package->source) || row_texts.contains(package->paragraphs[0]) ||
           row_texts.contains(package->answer());
  });
  if (std::ssize(possible) < options.test_rows) {
    refuse(fmt::format(
        "{} test rows are asked for, and {} packages share no source, body or answer with one of the {} rows",
        options.test_rows, possible.size(), result.rows.size()));
  }
  result.test = draw(possible, options.test_rows, CounterRng(options.seed, operator_id("tagged_test_packages")));
  add_to_known(result.test);
  result.not_drawn = num_possible - std::ssize(result.rows) - std::ssize(result.test);
  for (const Package& package : packages) {
    if (sources.contains(package.source)) continue;
    const auto add = [&](const std::string& text) {
      if (seen.insert(text).second) result.other_texts.push_back(text);
    };
    add(package.synopsis);
    std::ranges::for_each(package.paragraphs, add);
  }
  return result;
}

}  // namespace millrace

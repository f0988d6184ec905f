#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/packages/package_list.h"

namespace millrace {

struct TaggedPackagesOptions {
  int64_t rows = 6000;    ///< as many at most. Default: 6,000
  int64_t test_rows = 0;  ///< besides, that share no source, body or answer with a row. Default: 0
  int64_t tags = 30;      ///< Default: 30
  uint64_t seed = 0;      ///< of the choice. Default: 0
};

/// A task that every Debian machine has: which of the most frequent tags does a package have, of which somebody has
/// said so and whose description has two paragraphs at least?
struct TaggedPackages {
  std::vector<std::string> tags =
      {};                          ///< of all packages that can be rows the most frequent ones; of equal ones by name
  std::vector<Package> rows = {};  ///< every choice alike, in the order of the list
  std::vector<Package> test = {};
  /// Synopses and paragraphs of the packages of all other sources, each once, without those that rows have: what a
  /// model may learn from that is to be tested on rows.
  std::vector<std::string> other_texts = {};
  // Why others are no rows.
  int64_t untagged = 0;
  int64_t without_second_paragraph = 0;  ///< tagged
  int64_t not_drawn = 0;                 ///< neither row nor test row
};

/// Throws `kInvalidArgument` where no package can be a row, they have fewer tags, or fewer can be test rows.
TaggedPackages choose_tagged_packages(const std::vector<Package>& packages, const TaggedPackagesOptions& options);

}  // namespace millrace

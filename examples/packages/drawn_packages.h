#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

/// A package as a text with a class: its section.
struct PackageText {
  std::string name = {};
  std::string source = {};  ///< the package that it was built from
  /// The same of all that have a source or a description in common, or both with a third one: their texts are similar.
  std::string group = {};
  std::string section = {};
  std::string synopsis = {};
  std::string description = {};  ///< its paragraphs, a line each
};

struct DrawnPackagesOptions {
  std::string path = {};                   ///< what examples/packages/fetch.sh writes
  std::vector<std::string> sections = {};  ///< Default: none, the most frequent ones
  int64_t num_sections = 8;                ///< of them. Default: 8
  int64_t packages_per_section = 1000;     ///< at most. Default: 1,000
  uint64_t seed = 42;                      ///< of the choice and the order. Default: 42
};

struct DrawnPackages {
  std::vector<std::string> sections = {};
  std::vector<PackageText> packages = {};                      ///< in an order drawn by their names
  std::vector<std::pair<std::string, int64_t>> left_out = {};  ///< why, and how many
};

/// Packages of some sections, drawn by their names, with texts that do not say the package's name. Each text comes
/// once. Throws `kInvalidArgument` for a section that no package is in, and as `read_packages`.
[[nodiscard]] DrawnPackages drawn_packages(const DrawnPackagesOptions& options);

/// A text without the words that are `name`, in small letters or large ones, and without double spaces.
[[nodiscard]] std::string without_name(const std::string& text, const std::string& name);

}  // namespace millrace

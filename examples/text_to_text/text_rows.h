#pragma once

#include <cstdint>
#include <string>

#include <boost/program_options.hpp>

#include "examples/packages/drawn_packages.h"
#include "examples/text_to_text/text_encoder.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// Of a row without a class.
inline constexpr int64_t kNoClass = -1;

/// The names of a CSV's columns, and the options that say others.
struct TextColumns {
  std::string id = "Id";
  std::string title = "Title";
  std::string body = "Body";
  std::string label = "Y";
  bool needs_label = false;  ///< whether that one must be there. Default: false, only where rows need a class

  void add_to(boost::program_options::options_description& options);
  /// Throws `kInvalidArgument` where one of them was given: `--NAME why`.
  static void refuse_in(const boost::program_options::variables_map& given, const std::string& why);
};

/// The rows of a CSV, as bytes `id`, `group` (its id), `title` and `body`, of which HTML is stripped where the task
/// says so, and int64 `class`, or `kNoClass` where there is none. Throws as CsvTable. An error of a row names file,
/// line and column: a class that is none, text that is empty, not UTF-8 or HTML that cannot be read, and with
/// `needs_class` no class.
[[nodiscard]] Dataset csv_rows(const std::string& path, const TextColumns& columns, const TextTask& task,
                               bool needs_class);

/// The same rows of packages: the synopsis is the title, the description the body.
[[nodiscard]] Dataset package_rows(const DrawnPackages& drawn, const TextTask& task);

}  // namespace millrace

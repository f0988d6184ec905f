#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// How a CSV file is written: RFC 4180, with the options of TensorFlow's CsvDataset.
struct CsvFormat {
  char delimiter = ',';                      ///< between fields. Default: `,`
  bool quotes = true;                        ///< `"a,""b"""` is one field, `a,"b"`. Default: true
  bool header = false;                       ///< the first record of each file is left out. Default: false
  std::string missing = "";                  ///< a field of these bytes is missing, as an empty one is. Default: none
  std::vector<int64_t> select_columns = {};  ///< numbers of the fields that are read, ascending. Default: none, all

  /// Throws `kInvalidArgument` naming what cannot work. `operator_name` begins the message.
  void check(std::string_view operator_name) const;
};

}  // namespace millrace

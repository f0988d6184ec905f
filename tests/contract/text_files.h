#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/fixed_length/reader.h"
#include "millrace/formats/records/shards.h"
#include "millrace/ops/parse/parse_csv.h"
#include "tests/contract/model.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

// Small files of lines and of records of one length, written once for the whole run, with what is in them:
//
//     lines-0 … lines-3   lines with all kinds of ends; one file is empty, one has a line that is too long, one many
//     lines words-0 … words-3   records of kWords; one file has none, one does not fit, one has many
//     table-0 … table-3   CSV with a header, quotes and missing fields; one file has no rows, one bad ones, one many
//
// Each is there plain, as zlib and as gzip.
class TextFiles {
 public:
  static constexpr uint64_t kMostBytes = 100;  // of a line
  static constexpr uint64_t kMostFileBytes = 500;
  static constexpr FixedLengthFormat kWords{.record_bytes = 7, .header_bytes = 5, .footer_bytes = 9};
  // Columns of the second, the fourth and the third field of a table.
  static std::vector<CsvColumn> columns();
  static CsvFormat table();
  static constexpr int64_t kFew = 25;  // at most, in all files but the third
  static constexpr int64_t kMany = 1300;

  // The files of this process; removed when it ends.
  static const TextFiles& get();

  [[nodiscard]] Shards shards(const std::vector<std::string>& names, Compression compression) const;
  // Records of a file as elements, an error where they end with one or, where damage is passed, where it is.
  // Records of a table are taken for good ones until they are parsed, after all that mixes files.
  Model records(const std::string& name, Compression compression, bool passes_damage) const;
  [[nodiscard]] static Model parsed(Model records);
  // A file as one element, with its path and, `labelled`, the number of its folder; longer than `kMostFileBytes` it is
  // an error.
  Model whole(const std::string& name, bool labelled) const;

 private:
  TextFiles();
  std::string path(const std::string& name, Compression compression) const;
  void write_table(int64_t number, int64_t count);
  void write(const std::string& name, const std::string& content, const std::vector<ModelElement>& elements);

  TemporaryFolder folder_;
  std::map<std::string, std::vector<ModelElement>> records_;
  std::map<std::string, std::vector<ModelElement>> after_damage_;  // of those whose error is an end otherwise
};

}  // namespace millrace::test

#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/records/shards.h"
#include "tests/contract/model.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

constexpr int64_t kTokens = 6;        // of each record
constexpr int64_t kLongShard = 1100;  // records of a long one

// What one record says; `weight` is left out of some, and some are no Examples at all.
struct ExampleModel {
  int64_t id = 0;
  std::vector<int64_t> tokens;
  std::vector<int64_t> mask;
  std::optional<float> weight;
  std::string name;
  std::vector<std::string> words;           // 0 to 3
  std::vector<int64_t> cuts;                // lengths that cut up the tokens
  std::vector<int64_t> pairs;               // two values for each of 0 to 2 rows
  std::string pixels;                       // numbers of 16 bits; in some an odd number of bytes
  std::string tensor;                       // a TensorProto of two floats; in some cut off
  std::vector<std::vector<int64_t>> steps;  // of a feature list: 0 to 2, of unlike lengths
  bool is_text = false;
};

// Small shards that are written once for the whole run, with what is in them:
//
//     plain-0 … plain-5, zlib-0 … zlib-3, gzip-0 … gzip-3,
//     zstd-0 … zstd-3                                       Examples; one file of each kind is empty
//     odd-0, odd-1                                          some records lack `weight`, some are no Examples
//     damaged-0, damaged-1                                  some payloads do not match their CRCs
//     long-0, long-1                                        more than a block and more than a chunk of a file
//     indexed-0 … indexed-5                                 with indexes; 1 is empty, 3 damaged as above, 4 is long,
//                                                           5 is of zstd
class ShardFiles {
 public:
  // The files of this process; removed when it ends.
  static const ShardFiles& get();

  std::string path(const std::string& name) const { return folder_.path(name + ".tfrecord"); }
  // Records of a shard as elements, errors in the place of damaged ones.
  Model records(const std::string& name) const { return model_of_elements(records_.at(name)); }
  // What a record says, by its bytes.
  const ExampleModel& example(const std::string& record) const { return examples_.at(record); }

 private:
  ShardFiles();
  void write(const std::string& name, Compression compression, int64_t num_records);

  TemporaryFolder folder_;
  std::map<std::string, std::vector<ModelElement>> records_;
  std::map<std::string, ExampleModel> examples_;
};

// `shards({"plain-0", "gzip-2"})`: these files.
[[nodiscard]] Shards shards(const std::vector<std::string>& names);

}  // namespace millrace::test

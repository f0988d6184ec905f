#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/schema.h"
#include "millrace/formats/example/feature_description.h"

// Which lists of a record are asked for. Not for users.
namespace millrace::wire {

/// One list of the record, which one feature or several are made of.
struct WantedList {
  std::string key = {};
  DType stored = DType::kInt64;
  bool fixed_len = false;  // of a feature of fixed length
};

/// The lists that features are made of, each key once.
class WantedLists {
 public:
  /// Throws `kInvalidArgument` where one key is asked for as two types, or twice where one of both is of fixed length.
  /// `operator_name`: in the error.
  WantedLists(const std::vector<FeatureDescription>& features, std::string_view operator_name);

  size_t size() const { return lists_.size(); }
  const WantedList& operator[](size_t list) const { return lists_[list]; }
  /// The lists of a feature, as `keys_of` has them.
  const std::vector<size_t>& of_feature(size_t feature) const { return of_feature_[feature]; }
  /// The list of this key, or `size()`. Looks at `expected` first.
  size_t find(std::string_view key, size_t expected) const;

 private:
  std::vector<WantedList> lists_;
  std::vector<std::vector<size_t>> of_feature_;
};

}  // namespace millrace::wire

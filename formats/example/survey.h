#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/example/feature_description.h"

namespace millrace {

/// What the features of `tensorflow.Example` records are like, from some of them: for data of which nobody says how it
/// was made. One thread at a time.
///
///     ExampleSurvey survey;
///     for (const std::string_view record : records) survey.add(record);
///     dataset.parse_example(survey.proposal())
class ExampleSurvey {
 public:
  struct Feature {
    DType stored = DType::kInt64;  ///< kInt64, kFloat32 or kBytes
    int64_t records = 0;           ///< that have it, with or without values
    int64_t least = 0;             ///< number of values in such a record
    int64_t most = 0;
  };

  /// Looks at one record more. Throws `parse` for bytes that are no Example, and for a feature whose values are of
  /// another type than in an earlier record.
  void add(std::string_view record);

  int64_t num_records() const { return num_records_; }
  /// By key. Those of `left_out` are not among them.
  const std::map<std::string, Feature>& features() const { return features_; }

  /// What to parse: a feature that every record has with one number of values is `fixed_len`, a scalar where that is 1,
  /// any other is `var_len`. Records that were not looked at may be different.
  [[nodiscard]] std::vector<FeatureDescription> proposal() const;
  /// What the proposal leaves out, with the reason, the name as a literal of C++: a feature without a name; one that
  /// never had a list of values, so that its type is not known; the steps of SequenceExamples.
  [[nodiscard]] std::vector<std::string> left_out() const;
  /// The proposal as a call of `parse_example`, with what was seen of each feature, and what is left out.
  [[nodiscard]] std::string to_string() const;

 private:
  std::map<std::string, Feature> features_;
  std::set<std::string> without_values_;
  std::set<std::string> steps_;
  bool has_unnamed_ = false;
  int64_t num_records_ = 0;
};

}  // namespace millrace

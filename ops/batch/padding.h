#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/batch.h"

namespace millrace {

/// The longest a row can be asked to become.
constexpr int64_t kMostPaddedLength = int64_t{1} << 31;

/// To which length `padded_batch` pads vectors, and features of higher rank in the outermost size that varies.
class PadLength {
 public:
  /// To the longest of the batch.
  static PadLength longest() { return {false, 1}; }
  /// To exactly `length` values; a longer row is an error.
  static PadLength fixed(int64_t length) { return {true, length}; }
  /// To the longest of the batch, rounded up to a multiple of `n`: few distinct shapes.
  static PadLength multiple_of(int64_t n) { return {false, n}; }

  bool is_fixed() const { return fixed_; }
  int64_t fixed_length() const { return number_; }
  int64_t multiple() const { return number_; }
  /// The length for a batch whose longest row has `longest` values.
  int64_t length_for(int64_t longest) const { return fixed_ ? number_ : (longest + number_ - 1) / number_ * number_; }

 private:
  PadLength(bool fixed, int64_t number) : fixed_(fixed), number_(number) {}
  bool fixed_;
  int64_t number_;
};

/// What is put after a row; of the feature's kind: an integer, a floating-point number, or bytes.
using PaddingValue = std::variant<int64_t, double, std::string>;

/// Another rule for one feature.
struct FeaturePadding {
  /// Not where no size varies and it is no vector. Default: none, that of the operator
  std::optional<PadLength> length = {};
  std::optional<PaddingValue> value = {};  ///< Default: none, that of the operator

  static constexpr auto fields() {
    using A = FeaturePadding;
    return describe<A>("FeatureRules", field::stream<&A::length>, field::stream<&A::value>);
  }
};

/// As definitions have a length; neither: the longest.
struct WrittenLength {
  std::optional<int64_t> fixed = {};
  std::optional<int64_t> multiple_of = {};

  static constexpr auto fields() {
    using A = WrittenLength;
    return describe<A>("PadLength", field::stream<&A::fixed>, field::stream<&A::multiple_of>);
  }
};
template <>
struct WrittenAs<PadLength> {
  using Type = WrittenLength;
  static Type to(const PadLength& length);
  static PadLength from(const Type& length);
};
std::string text_of_argument(const PadLength& length, bool all);

template <>
struct OfFeature<PaddingValue> {
  std::string feature = {};
  PaddingValue value = {};

  static constexpr auto fields() {
    return describe<OfFeature>("FeatureValue", field::required<&OfFeature::feature>,
                               field::required<&OfFeature::value>);
  }
};
template <>
struct OfFeature<FeaturePadding> {
  std::string feature = {};
  FeaturePadding padding = {};

  static constexpr auto fields() {
    return describe<OfFeature>("FeaturePadding", field::required<&OfFeature::feature>,
                               field::inlined<&OfFeature::padding>);
  }
};

struct PaddedBatchOptions {
  bool drop_remainder = false;                          ///< drop the last batch when it is short. Default: false
  PadLength length = PadLength::longest();              ///< Default: longest
  std::optional<PaddingValue> value = {};               ///< of features of its kind. Default: none, 0 or no bytes
  std::map<std::string, FeaturePadding> features = {};  ///< other rules, by name. Default: none

  static constexpr std::string_view kAlternative = "padded_batch";  // in BatchingOptions

  static constexpr auto fields() {
    using A = PaddedBatchOptions;
    return describe<A>("Padding", field::stream<&A::length>, field::stream<&A::value>, field::stream<&A::features>,
                       field::stream<&A::drop_remainder>);
  }
};

/// How elements of a schema are padded to batches: what padded_batch does, for every operator that makes batches.
class Padding {
 public:
  /// Throws `kInvalidArgument` when an option cannot be. `operator_name` begins every message, and outlives the object.
  Padding(std::string_view operator_name, SchemaPtr input, PaddedBatchOptions options);

  const PaddedBatchOptions& options() const { return options_; }
  /// Pads every dimension whose size varies to `size`, except where a feature has a length of its own. A larger element
  /// is an error, with `hint` after its sizes.
  [[nodiscard]] Padding with_varying(int64_t size, std::string hint) const;
  /// The schema of batches of `rows` rows, or of how many there are (`kVaries`).
  SchemaPtr schema(int64_t rows) const;
  /// Makes batches of the schema `batches`. The pool of `context` must outlive it. A batch is an error in its place
  /// when a feature would have more than `kMostElementValues` (`kWrongShape`), or more bytes than the memory budget
  /// (`kMemoryBudget`).
  BatchStage::Assemble assemble(SchemaPtr batches, const StageContext& context) const;
  /// The rule of one feature, all defaults filled in.
  struct Rule {
    PadLength length = PadLength::longest();
    PaddingValue value;
    bool own_length = false;         // from the feature's own options
    std::optional<int64_t> varying;  // what every dimension that varies is padded to, of any rank
    /// The length of a vector, whose size varies or not, in a batch whose longest row has `longest` values, which may
    /// be too many.
    int64_t length_for(bool varies, int64_t longest) const {
      return varies && varying ? *varying : length.length_for(longest);
    }
  };
  /// By column.
  const std::vector<Rule>& rules() const { return rules_; }

 private:
  std::string_view operator_name_;
  SchemaPtr input_;
  PaddedBatchOptions options_;
  std::vector<Rule> rules_;  // by column
  std::string hint_;
};

}  // namespace millrace

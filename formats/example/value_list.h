#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/schema.h"

// The values of one Feature message. Not for users.
namespace millrace::wire {

/// The list of a Feature message: mostly one piece, more where the same kind occurs again (protobuf joins them).
struct ValueList {
  std::optional<DType> kind;
  std::string_view piece;
  std::vector<std::string_view> more;
  int depth = 0;         // of the list in the record
  bool several = false;  // the message has more than one list, of one kind or of different ones
};

/// Adds what `feature`, a Feature message or a further part of one, says. `depth`: of the message in the record. Throws
/// `Malformed`, as all here.
void read_feature(std::string_view feature, int depth, ValueList& list);

/// What reading a list found.
struct ValuesFound {
  int64_t count = 0;
  bool after_packed = false;  // numbers stood after a packed run; TensorFlow leaves them out
};

/// Reads the list to `destination`, which has room for `capacity` values of type `dtype`; counts also what is beyond.
ValuesFound read_values(const ValueList& list, DType dtype, int64_t capacity, std::byte* destination);

/// How many values a valid list has; of one that is not, no more than it has bytes.
int64_t count_values(const ValueList& list);

/// The one packed run that a Feature message of numbers of this kind consists of; empty where it or its list is.
/// Nothing where it is anything else. Throws `Malformed`.
std::optional<std::string_view> packed_run(std::string_view feature, DType kind);
/// How many values it has; of one that is not valid, no more than it has bytes.
int64_t count_packed(std::string_view run, DType kind);
/// Reads it as `read_values` does. What `destination` has room for after the values may be written to. Returns their
/// number.
int64_t read_packed(std::string_view run, DType dtype, int64_t capacity, std::byte* destination);

/// What nobody wants, or what something later replaces, must be valid all the same.
void check_values(const ValueList& list);

}  // namespace millrace::wire

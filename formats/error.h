#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

namespace millrace {

/// What went wrong. One code has one meaning wherever it appears.
enum class ErrorCode {
  kLengthCrc,        ///< the CRC of a record's length does not match: where the next record begins is unknown
  kPayloadCrc,       ///< the CRC of a record's payload does not match; the next record can be found
  kTruncated,        ///< the file ends inside a record, a header or a compressed stream
  kRecordTooLarge,   ///< a record is longer than the limit set by the caller
  kCompression,      ///< damaged or unknown compressed data
  kIndex,            ///< the index of a shard is broken, or of another content than the shard has
  kParse,            ///< bytes that are no valid message of their format
  kMissingFeature,   ///< a feature without a default is not in the record
  kWrongShape,       ///< a value has another shape than its feature declares, or than its neighbours in a batch
  kIo,               ///< the storage failed: missing file, permission, full disk, device error
  kCardinality,      ///< another number of records than was promised
  kInvalidArgument,  ///< an argument that cannot work, found in the builder or on a command line
  kOutOfMemory,      ///< the system has no more memory
  kUserFunction,     ///< a function given by the user threw
  kMemoryBudget,     ///< something that cannot be done within the memory budget of the pipeline
  kState,            ///< a saved state that is damaged, or of another dataset, other shards or a later version
  kDamageBudget,     ///< more of the shards is damaged than the budget of their dataset allows to leave out
  kStalled,          ///< nothing moved in a pipeline for longer than its watchdog allows
  kNotFinite,        ///< losses or gradients of a training that are infinite or NaN, step after step
  kOutOfRange,       ///< a value of the data that an operator cannot use: a choice of no input, a number too large
};

/// The code as it appears in messages: `length_crc`, `payload_crc`, `truncated`, ...
std::string_view to_string(ErrorCode code);

struct SkippedRegion;

/// One error as a value. Layers add what they know once: the reader the shard, offset and record, the pipeline the
/// stage.
struct Error {
  ErrorCode code = ErrorCode::kIo;
  std::string message = {};  ///< what was expected and what was found, without the place
  std::string shard = {};    ///< file the bytes came from. Default: none
  int64_t offset = -1;  ///< byte in the shard (in the uncompressed bytes of a compressed one). Default: -1, unknown
  int64_t record = -1;  ///< index of the record in the shard, from 0. Default: -1, unknown
  /// Name of the operator, such as `parse_example`: the same for every plan of a dataset, so without its number there;
  /// the message alone distinguishes two operators of one name. Default: none.
  std::string stage = {};
  int64_t lost_bytes = 0;  ///< bytes of the shard that give no records because of it; not printed. Default: 0
  /// Whether nothing follows because of it, so that no operator drops it with its element; not printed. Default: false
  bool ends_stream = false;
  /// Not null: no error, but the note that this part of a shard was left out. It goes through a pipeline in its place,
  /// like an error, and nobody loses or drops anything because of it. Default: null.
  std::shared_ptr<const SkippedRegion> skipped = nullptr;

  /// One line: `payload_crc: expected 1a2b3c4d, found 00000000 (shard train-3.tfrecord, offset 1040, record 17)`.
  std::string to_string() const;
};

/// An `Error` as an exception. Formats throw it, builders throw it with `kInvalidArgument`.
class ErrorException : public std::runtime_error {
 public:
  explicit ErrorException(Error error) : std::runtime_error(error.to_string()), error_(std::move(error)) {}
  ErrorException(ErrorCode code, std::string message)
      : ErrorException(Error{.code = code, .message = std::move(message)}) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// Memory that something asked for beyond the memory budget of its pipeline. It is a `std::bad_alloc`, so that whoever
/// passes that on passes this on too; it allocates nothing.
class MemoryBudgetError : public std::bad_alloc {
 public:
  /// In bytes: what was asked for, what was in use then, and the budget.
  MemoryBudgetError(int64_t bytes, int64_t in_use, int64_t budget) noexcept
      : bytes_(bytes), in_use_(in_use), budget_(budget) {}
  const char* what() const noexcept override { return "more than the memory budget"; }
  /// `kMemoryBudget`, with all three numbers.
  Error error() const;

 private:
  int64_t bytes_;
  int64_t in_use_;
  int64_t budget_;
};

/// In a `catch`: the exception that is being handled as an error, so that it has one code wherever it is caught. An
/// `ErrorException` keeps its own error, as `MemoryBudgetError` does; other `std::bad_alloc` are `kOutOfMemory`, all
/// else `kUserFunction` with what it says. `stage`: set where the error names no stage yet.
///
///     try {
///       function();
///     } catch (...) {
///       keep(current_exception_as_error());
///     }
[[nodiscard]] Error current_exception_as_error(std::string_view stage = {});

}  // namespace millrace

#include "millrace/formats/error.h"

#include <exception>
#include <new>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/storage/shown_url.h"
#include "millrace/formats/utf8.h"

namespace millrace {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kLengthCrc: return "length_crc";
    case ErrorCode::kPayloadCrc: return "payload_crc";
    case ErrorCode::kTruncated: return "truncated";
    case ErrorCode::kRecordTooLarge: return "record_too_large";
    case ErrorCode::kCompression: return "compression";
    case ErrorCode::kIndex: return "index";
    case ErrorCode::kParse: return "parse";
    case ErrorCode::kMissingFeature: return "missing_feature";
    case ErrorCode::kWrongShape: return "wrong_shape";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kCardinality: return "cardinality";
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kUserFunction: return "user_function";
    case ErrorCode::kMemoryBudget: return "memory_budget";
    case ErrorCode::kState: return "state";
    case ErrorCode::kDamageBudget: return "damage_budget";
    case ErrorCode::kStalled: return "stalled";
    case ErrorCode::kNotFinite: return "not_finite";
    case ErrorCode::kOutOfRange: return "out_of_range";
  }
  return "unknown";
}

std::string Error::to_string() const {
  std::vector<std::string> places;
  // A file of a checkpoint, a tokenizer or a config is no shard: it has neither records nor a stage that reads it.
  const bool of_records = offset >= 0 || record >= 0 || !stage.empty();
  if (!shard.empty()) places.push_back(fmt::format("{} {}", of_records ? "shard" : "file", shown_url(shard)));
  if (offset >= 0) places.push_back(fmt::format("offset {}", offset));
  if (record >= 0) places.push_back(fmt::format("record {}", record));
  if (!stage.empty()) places.push_back(fmt::format("stage {}", stage));
  std::string text = fmt::format("{}: {}", millrace::to_string(code), message);
  if (!places.empty()) text += fmt::format(" ({})", fmt::join(places, ", "));
  return printable(text);  // names in it may be any bytes
}

Error MemoryBudgetError::error() const {
  return {.code = ErrorCode::kMemoryBudget,
          .message = fmt::format("{} bytes more are needed where {} are in use, the memory budget is {}", bytes_,
                                 in_use_, budget_)};
}

Error current_exception_as_error(std::string_view stage) {
  Error error;
  try {
    throw;
  } catch (const ErrorException& e) {
    error = e.error();
  } catch (const MemoryBudgetError& e) {
    error = e.error();
  } catch (const std::bad_alloc&) {
    error = {.code = ErrorCode::kOutOfMemory, .message = "the system has no more memory"};
  } catch (const std::exception& e) {
    error = {.code = ErrorCode::kUserFunction, .message = e.what()};
  } catch (...) {
    error = {.code = ErrorCode::kUserFunction, .message = "threw something that is no std::exception"};
  }
  if (error.stage.empty()) error.stage = stage;
  return error;
}

}  // namespace millrace

#pragma once

#include <functional>
#include <string>

namespace millrace {

/// Makes a run that ends by an error say what it had left out of damaged shards until then: when an exception ends the
/// scope, prints what `report` gives (`SkipReport::to_string`) on standard error, above the error's own line.
///
///     const SkippedAtError at_error([&] { return pipeline.skipped().to_string(); });
class SkippedAtError {
 public:
  /// `report` may return an empty text: then nothing is printed.
  explicit SkippedAtError(std::function<std::string()> report);
  ~SkippedAtError();
  SkippedAtError(const SkippedAtError&) = delete;
  SkippedAtError& operator=(const SkippedAtError&) = delete;

 private:
  std::function<std::string()> report_;
  int exceptions_before_;
};

}  // namespace millrace

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <boost/program_options.hpp>

namespace millrace {

/// The values that a whole number may have, both included.
struct WholeNumberLimits {
  int64_t least = 0;
  int64_t most = 0;
};

/// The values that a real number may have, both included.
struct RealNumberLimits {
  double least = 0;
  double most = 0;
};

/// Limits that several programs have in common.
namespace limits {
inline constexpr int64_t kThreads = 1024;               ///< as the pipeline's and the trainer's
inline constexpr int64_t kCount = 1'000'000'000'000;    ///< of what comes one by one: elements, steps, records
inline constexpr int64_t kRows = 1'000'000'000;         ///< that are in memory together
inline constexpr int64_t kFew = 1'000'000;              ///< files, runs, candidates
inline constexpr int64_t kMemoryMb = int64_t{1} << 30;  ///< in bytes it fits 64 bits
inline constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
inline constexpr double kSeconds = 1e8;  ///< 3 years, whose nanoseconds fit 64 bits
}  // namespace limits

/// A value outside its option's limits, or no number: `--accumulate is 0; 1 to 1000000 are possible`.
class NumberOptionError final : public boost::program_options::error_with_option_name {
 public:
  NumberOptionError(std::string_view given, std::string_view least, std::string_view most);
};

/// The value of an option that is parsed strictly: its whole text is a finite number within the limits, which `--help`
/// shows, else `NumberOptionError` is thrown. Of a reference the value that is there is the default; a pointer, which
/// may be null, has none. `T`: int, int64_t or uint64_t.
///
///     ("replicas", whole_number(options.replicas, {1, 1024}), "parts that a batch is split into")
template <typename T>
[[nodiscard]] boost::program_options::typed_value<T>* whole_number(T& target, WholeNumberLimits limits);
template <typename T>
[[nodiscard]] boost::program_options::typed_value<T>* whole_number(T* target, WholeNumberLimits limits);
[[nodiscard]] boost::program_options::typed_value<double>* real_number(double& target, RealNumberLimits limits);
[[nodiscard]] boost::program_options::typed_value<double>* real_number(double* target, RealNumberLimits limits);

/// Throws std::logic_error naming an option whose value is neither text nor a number with limits.
void require_limits(const boost::program_options::options_description& options);
/// Throws the `NumberOptionError` of an empty text if `option`, with or without its dashes, is a number.
void refuse_empty_number(const boost::program_options::options_description& options, std::string_view option);

}  // namespace millrace

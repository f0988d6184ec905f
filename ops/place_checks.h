#pragma once

#include <cstdint>
#include <string_view>

#include "millrace/ops/stage.h"

namespace millrace {

/// Elements after a state: stages renew theirs every few blocks, and no run is further from the last one.
constexpr int64_t kMostSkipped = int64_t{1} << 24;
/// Elements that are read again where nothing bounds them but how long a run may last: so many take hours.
constexpr int64_t kMostReadAgain = int64_t{1} << 36;

/// What a stage knows of the numbers in its state. A digest keeps nobody from writing others: a stage that believed
/// them would read for years to come to a place that is not there.

/// `number`, a place in something that ends after `most`. Throws `kState` for one after that.
int64_t place_within(std::string_view kind, int64_t number, int64_t most);

/// `number` of elements that are read again to come to a place. Throws `kState` for more than `kMostReadAgain`.
int64_t elements_to_read_again(std::string_view kind, int64_t number);

/// Throws `kState`: the input of a stage ended before the place where its state was taken.
[[noreturn]] void refuse_ended_input(std::string_view kind);

}  // namespace millrace

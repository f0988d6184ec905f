#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

/// A few components that each multiply a text make gigabytes of it: throws `kRecordTooLarge` where one, `what`, makes
/// more than 64 MiB of a shorter text. What only copies a long one is let through.
void require_not_multiplied(size_t bytes_before, size_t bytes_after, std::string_view what);

}  // namespace millrace

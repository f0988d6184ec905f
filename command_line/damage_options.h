#pragma once

#include <boost/program_options.hpp>

#include "millrace/formats/records/damage_policy.h"

namespace millrace {

/// Adds `--damage fail|skip` and the limits of its budget, `--max-skipped-records`, `--max-skipped-bytes` and
/// `--max-skipped-share`, to the options of a program that reads shards.
void add_damage_options(boost::program_options::options_description& options);

/// What was given of them. Throws `kInvalidArgument` with one line.
[[nodiscard]] DamagePolicy damage_policy(const boost::program_options::variables_map& given);

}  // namespace millrace

#pragma once

#include <string_view>

namespace millrace::test {

/// Reads any bytes as the config.json of a RoBERTa and of a T5: refused as `kParse` or `kInvalidArgument`, or a config
/// that is the same once it was written and read again.
void fuzz_trainer_config(std::string_view bytes);

/// Reads any bytes as the training.json of a checkpoint: refused as `kParse`, or progress that is the same once it was
/// saved and read again.
void fuzz_trainer_progress(std::string_view bytes);

}  // namespace millrace::test

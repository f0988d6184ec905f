#include "tests/fuzz/corpus.h"
#include "tests/fuzz/trainer_fuzz.h"

namespace millrace::test {
namespace {

INSTANTIATE_TEST_SUITE_P(, Corpus,
                         ::testing::Values(Target{"trainer_config", fuzz_trainer_config, 5},
                                           Target{"trainer_progress", fuzz_trainer_progress, 3}),
                         [](const auto& target) { return target.param.name; });

}  // namespace
}  // namespace millrace::test

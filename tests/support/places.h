#pragma once

#include <string>

namespace millrace::test {

// Where tests find files of the source folder and the programs of the build. Each test program has the ones it needs in
// a source of its own that CMake writes (millrace_places in tests/CMakeLists.txt): as macros of the command line they
// would make each test file another one in each clone, which no compiler cache knows. Constants: any thread, and before
// `main`.

/// The folder of the repository.
extern const char* const kSources;
extern const char* const kCheckCosts;
extern const char* const kCheckKernels;
extern const char* const kDatasetBench;
extern const char* const kDatasetBenchWithHangingReads;
extern const char* const kDatasetIndex;
extern const char* const kBucketLeftovers;
extern const char* const kDatasetVerify;
extern const char* const kFillMask;
extern const char* const kGemmShareBench;
extern const char* const kGlobalShuffleBench;
extern const char* const kMeasureSuperResolution;
extern const char* const kPredictQuest;
extern const char* const kPrepareFrozenFeatures;
extern const char* const kPrepareQuest;
extern const char* const kPrepareQuestWithFaults;
extern const char* const kPredictTextToText;
extern const char* const kPredictTextToTextWithFaults;
extern const char* const kPrepareShards;
extern const char* const kPrepareShardsWithFaults;
extern const char* const kPrepareSuperResolution;
extern const char* const kPrepareTextToText;
extern const char* const kPrepareTextToTextWithFaults;
extern const char* const kReadEvents;
extern const char* const kSavedElementsBench;
extern const char* const kSavingElements;
extern const char* const kShardStorageBench;
extern const char* const kSideBySide;
extern const char* const kToyRun;
extern const char* const kToyTraining;
extern const char* const kTrainFrozenFeatures;
extern const char* const kTrainMlm;
extern const char* const kTrainMlmWithHangingReads;
extern const char* const kTrainQuest;
extern const char* const kTrainTextToText;
extern const char* const kTrainUnigram;
extern const char* const kTrainingSoak;
extern const char* const kTrainSuperResolution;
extern const char* const kDistillSuperResolution;
extern const char* const kInterpolateSuperResolution;
extern const char* const kUpscaleSuperResolution;

/// A file of the repository, or of tests/data, by its path below that folder.
inline std::string source_path(const std::string& below) { return std::string(kSources) + "/" + below; }
inline std::string data_path(const std::string& below) { return source_path("tests/data/" + below); }

}  // namespace millrace::test

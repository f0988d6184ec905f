#pragma once

#include "ops/operator.h"

/// Threads that the user's pipelines have.
inline int num_threads() { return one_more(1); }

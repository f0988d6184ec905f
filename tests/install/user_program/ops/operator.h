#pragma once

/// A file of the user's, named like one of Millrace's.
inline int one_more(int number) { return number + 1; }

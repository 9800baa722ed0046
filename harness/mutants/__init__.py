"""Do the tests notice? Small mistakes are put into the code, and the tests should fail for each."""

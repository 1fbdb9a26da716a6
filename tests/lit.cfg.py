# The text tests: every *.mlir and *.test under tests/, run by ctest as `lit`. One test alone:
#   lit-22 -v build/tests --filter NAME
import os

import lit.formats

config.name = "mt"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["golden", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join([config.mt_bin, config.llvm_bin, config.environment["PATH"]])
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input=fail"
# Sanitizer builds say through the environment what they tolerate.
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.substitutions.append(("%golden", os.path.join(config.test_source_root, "e2e", "golden")))
config.substitutions.append(("%python", config.python))

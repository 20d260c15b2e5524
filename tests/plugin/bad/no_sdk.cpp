// A shared library that has nothing to do with opc.
extern "C" int unrelated() { return 42; }

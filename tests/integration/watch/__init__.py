"""The watcher with real files, commands and sockets, and a journal that the test writes."""

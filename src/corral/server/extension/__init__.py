"""Kinds and APIs that others bring: conversion, aggregation, and calls to their servers."""
